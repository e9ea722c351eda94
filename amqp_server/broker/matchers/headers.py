"""Headers exchange: the message's headers against the binding's arguments.

Source: RabbitMQ, `rabbit_exchange_type_headers`: `x-match` is all (default), any,
all-with-x or any-with-x; without `-with-x`, keys that begin with `x-` are not compared; a
binding value of void asks for presence only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.matchers.matcher import Matcher
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import same_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.envelope import Envelope
    from amqp_server.protocol.tables import Table


class HeadersMatcher(Matcher):
    """All bindings, tried one after the other."""

    routes_singly = True

    def __init__(self) -> None:
        """Begin without bindings."""
        self._bindings: dict[Binding, None] = {}

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check `x-match`."""
        if match_kind(arguments) is None:
            value = arguments["x-match"].value
            shown = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            raise PreconditionFailed(
                f'Invalid x-match field value <<"{shown}">>; '
                "expected all, any, all-with-x, or any-with-x"
            )

    def add(self, binding: Binding) -> None:
        """Take in a binding."""
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        """Forget a binding."""
        del self._bindings[binding]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose arguments fit the headers."""
        headers = envelope.headers
        return [
            binding.destination for binding in self._bindings if _fits(binding.arguments, headers)
        ]


def match_kind(arguments: Table) -> str | None:
    """Return the binding's `x-match`, `all` when absent, None when it is not one of the four."""
    value = arguments.get("x-match")
    if value is None:
        return "all"
    kind = value.value.decode("utf-8", "replace") if isinstance(value.value, bytes) else ""
    return kind if kind in {"all", "any", "all-with-x", "any-with-x"} else None


def _fits(arguments: Table, headers: Table) -> bool:
    kind = match_kind(arguments) or "all"
    with_x = kind.endswith("-with-x")
    outcomes = (
        name in headers and (wanted.kind == b"V" or same_value(wanted, headers[name]))
        for name, wanted in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )
    return all(outcomes) if kind.startswith("all") else any(outcomes)
