"""Graph of exchanges that lead to others, by bindings or as alternates; its edges are kept.

A route that is remembered for an exchange may lead through others. The graph finds the exchanges
whose routes a change may have altered, however many bindings each of them has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from amqp_server.broker.exchange import Exchange

AFFECTED_MAX: Final = 256
"""Exchanges that one change looks at; behind that, all routes of the virtual host are forgotten."""


class ExchangeGraph:
    """The exchanges of one virtual host as nodes. Changes cost O(1)."""

    def __init__(self) -> None:
        self._after: dict[Exchange, dict[Exchange, int]] = {}
        self._before: dict[Exchange, dict[Exchange, int]] = {}
        self._with_alternate: dict[str, dict[Exchange, None]] = {}

    def add(self, exchange: Exchange) -> None:
        """Take in an exchange, with its alternate."""
        if exchange.alternate is not None:
            self._with_alternate.setdefault(exchange.alternate, {})[exchange] = None

    def remove(self, exchange: Exchange) -> None:
        """Forget the alternate of a deleted exchange; its bindings are counted until `unbind`."""
        if exchange.alternate is not None:
            users = self._with_alternate[exchange.alternate]
            del users[exchange]
            if not users:
                del self._with_alternate[exchange.alternate]

    def bind(self, source: Exchange, destination: Exchange) -> None:
        """Count one more binding from `source` to `destination`."""
        for edges, start, end in (
            (self._after, source, destination),
            (self._before, destination, source),
        ):
            ends = edges.setdefault(start, {})
            ends[end] = ends.get(end, 0) + 1

    def unbind(self, source: Exchange, destination: Exchange) -> None:
        """Count one binding less."""
        for edges, start, end in (
            (self._after, source, destination),
            (self._before, destination, source),
        ):
            ends = edges[start]
            ends[end] -= 1
            if not ends[end]:
                del ends[end]
            if not ends:
                del edges[start]

    def bound_to(self, exchange: Exchange) -> Iterable[Exchange]:
        """Return the exchanges that bindings of `exchange` lead to."""
        return self._after.get(exchange, ())

    def affected_by(self, changed: Collection[Exchange]) -> list[Exchange] | None:
        """Return exchanges and all whose routes may lead through them; None: too many to look at.

        O(exchanges returned), at most `AFFECTED_MAX`.
        """
        if len(changed) > AFFECTED_MAX:
            return None
        affected = dict.fromkeys(changed)
        pending = list(changed)
        while pending:
            current = pending.pop()
            for edges in (
                self._before.get(current, ()),
                self._with_alternate.get(current.name, ()),
            ):
                for before in edges:
                    if before not in affected:
                        if len(affected) == AFFECTED_MAX:
                            return None
                        affected[before] = None
                        pending.append(before)
        return list(affected)
