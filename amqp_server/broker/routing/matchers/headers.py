"""Headers exchange: the message's headers against the binding's arguments.

`x-match` is all (default), any, all-with-x or any-with-x; without `-with-x`, keys that begin
with `x-` are not compared; a binding value of void asks for presence only. All else is compared
as RabbitMQ's bare Erlang values are: 5, 5.0 and a timestamp of 5 are equal, kinds count only
inside arrays and tables.

Source: RabbitMQ, `rabbit_exchange_type_headers` and its texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.broker.routing.matchers.matcher import Matcher
from amqp_server.broker.routing.steps import STEP_VISITS, result_of
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import bare_value, erlang_term, type_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.routing.matchers.matcher import Destination, MatchedBinding
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.protocol.tables import Table

_Place = tuple[str, object]
"""A header's name and its bare value, or `_ANY_VALUE`."""
_ANY_VALUE = object()

_ARGUMENTS_OF_VISIT: Final = 8
"""To compare so many arguments takes as long as to look at a binding; it may have thousands."""
_KINDS: Final = frozenset({"all", "any", "all-with-x", "any-with-x"})


class _Pattern(NamedTuple):
    """Condition of a binding: all or any of its values, and of its names that need no value."""

    asks_for_all: bool
    values: dict[str, object]
    names: list[str]


class HeadersMatcher(Matcher):
    """Bindings by one of the headers that they ask for.

    A binding that asks for all of its headers stands under the rarest of them, one that asks for
    any stands under each. So a message is compared with the bindings that one of its headers
    leads to, however many others there are.
    """

    routes_singly = True

    def __init__(self) -> None:
        self._patterns: dict[MatchedBinding, _Pattern] = {}
        self._places: dict[MatchedBinding, list[_Place]] = {}
        self._by_place: dict[_Place, dict[MatchedBinding, None]] = {}
        self._always: dict[MatchedBinding, None] = {}

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check `x-match`."""
        value = arguments.get("x-match")
        if value is None:
            return
        shown = erlang_term(value.value)
        if value.kind != b"S":
            raise PreconditionFailed(
                f"Invalid x-match field type {type_name(value)} (value {shown}); expected longstr"
            )
        if _match_kind(arguments) not in _KINDS:
            raise PreconditionFailed(
                f"Invalid x-match field value {shown}; expected all, any, all-with-x, or any-with-x"
            )

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding."""
        pattern = self._patterns[binding] = _pattern(binding.arguments)
        places = [_place(name, value) for name, value in pattern.values.items()]
        places += [(name, _ANY_VALUE) for name in pattern.names]
        if pattern.asks_for_all:
            if not places:
                self._always[binding] = None
            places = sorted(places, key=self._crowd)[:1]
        self._places[binding] = places
        for place in places:
            self._by_place.setdefault(place, {})[binding] = None

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding."""
        del self._patterns[binding]
        self._always.pop(binding, None)
        for place in self._places.pop(binding):
            crowd = self._by_place[place]
            del crowd[binding]
            if not crowd:
                del self._by_place[place]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose arguments fit the headers."""
        return result_of(self.match_in_steps(envelope))

    def match_in_steps(self, envelope: Envelope) -> Steps[Sequence[Destination]]:
        """Return the steps that find the same; a binding that goes between two of them may fit."""
        headers = {name: bare_value(value) for name, value in envelope.headers.items()}
        found: dict[Destination, None] = {}
        looked_at = 0
        for crowd in self._crowds(headers):
            envelope.visit(len(crowd))
            looked_at += 1
            # A crowd is copied when its turn comes: many headers may have a large one each.
            for binding in tuple(crowd):
                looked_at += 1
                if binding.destination not in found:
                    # One that was removed between two steps counts: another may have come for it.
                    pattern = self._patterns.get(binding) or _pattern(binding.arguments)
                    looked_at += (len(pattern.values) + len(pattern.names)) // _ARGUMENTS_OF_VISIT
                    if _fits(pattern, headers):
                        found[binding.destination] = None
                if looked_at >= STEP_VISITS:
                    looked_at = 0
                    yield
            if looked_at >= STEP_VISITS:
                looked_at = 0
                yield
        return tuple(found)

    def _crowds(self, headers: dict[str, object]) -> Iterator[Collection[MatchedBinding]]:
        """Return the bindings that may fit, those of one place at a time."""
        yield self._always
        for name, value in headers.items():
            for place in {_place(name, value), (name, _ANY_VALUE)}:
                yield self._by_place.get(place, ())

    def _crowd(self, place: _Place) -> int:
        """Return how many bindings stand at a place already."""
        return len(self._by_place.get(place, ()))


def _place(name: str, value: object) -> _Place:
    """Return where bindings stand that ask for a header; those with arrays and tables by name."""
    return (name, _ANY_VALUE) if isinstance(value, list) else (name, value)


def _match_kind(arguments: Table) -> str:
    value = arguments.get("x-match")
    if value is None or not isinstance(value.value, bytes):
        return "all"
    return value.value.decode("utf-8", "replace")


def _pattern(arguments: Table) -> _Pattern:
    kind = _match_kind(arguments)
    compared = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and (kind.endswith("-with-x") or not name.startswith("x-"))
    }
    return _Pattern(
        not kind.startswith("any"),
        {name: bare_value(value) for name, value in compared.items() if value.kind != b"V"},
        [name for name, value in compared.items() if value.kind == b"V"],
    )


def _fits(pattern: _Pattern, headers: dict[str, object]) -> bool:
    asks_for_all, values, names = pattern
    if asks_for_all:
        return all(name in headers for name in names) and all(
            name in headers and headers[name] == value for name, value in values.items()
        )
    return any(name in headers for name in names) or any(
        name in headers and headers[name] == value for name, value in values.items()
    )
