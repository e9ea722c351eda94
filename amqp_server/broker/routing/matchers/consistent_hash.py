"""Consistent-hash exchange: each message to one destination, shared out by weights.

The binding key is the destination's weight. What is hashed is the routing key, or a header or a
property that the exchange's arguments name: what hashes alike goes to one destination, on every
server and after every restart.

Each destination has as many buckets as its weight says, one destination behind the other in the
order of their oldest bindings, and `appendlog.sharding` finds the bucket of a message: with
weights of 1 the number of the bucket is that of the shard. So a new destination takes its share
evenly from the others. When one leaves, the buckets behind it are renumbered, and of its
neighbours' messages some move too: to move none, remove the last destination.

Source: RabbitMQ, plugin rabbitmq_consistent_hash_exchange.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import erlang_binary, type_name
from appendlog.sharding import pick_bucket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.routing.matchers.matcher import Destination, MatchedBinding
    from amqp_server.protocol.tables import Table

_HEADER, _HEADER_ALIAS, _PROPERTY = "hash-header", "x-hash-on", "hash-property"
_PROPERTIES = ("message_id", "correlation_id", "timestamp")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class ConsistentHashMatcher(Matcher):
    """Destinations with their weights.

    Args:
        arguments: Of the exchange: `hash-header` (or LavinMQ's `x-hash-on`) or `hash-property`.

    Raises:
        PreconditionFailed: Both are there, or one has a value that it cannot have.
    """

    rearranges_all = True

    def __init__(self, arguments: Table) -> None:
        self._header, self._property = _hashed(arguments)
        self.routes_singly = self._header is not None or self._property is not None
        self._bindings: dict[MatchedBinding, None] = {}
        self._ends: list[int] | None = []
        self._destinations: list[Destination] = []

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check that the key is a weight."""
        if _INTEGER.fullmatch(routing_key) is None:
            shown = erlang_binary(routing_key.encode("utf-8", "surrogateescape"))
            raise PreconditionFailed(f"The binding key must be an integer: {shown}")
        if int(routing_key) <= 0:
            raise PreconditionFailed("The binding key must be greater than 0")

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding; while its destination has an older one, that one's weight counts."""
        self._bindings[binding] = None
        self._ends = None

    def on_destination_deleted(self) -> None:
        """Number the buckets again before the next message, without those of the destination."""
        self._ends = None

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding; one to a deleted destination has no buckets any more."""
        del self._bindings[binding]
        if not binding.destination.is_gone:
            self._ends = None

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the one destination of the message; none if there are no bindings."""
        ends = self._arrange() if self._ends is None else self._ends
        if not ends:
            return ()
        bucket = pick_bucket(self._hashed_key(envelope), ends[-1])
        return (self._destinations[bisect_right(ends, bucket)],)

    def _arrange(self) -> list[int]:
        """Number the buckets; return where those of each destination end.

        Once for any number of bindings that came and went, not at each of them.
        """
        weights: dict[Destination, int] = {}
        kept = (each for each in self._bindings if not each.destination.is_gone)
        for binding in sorted(kept, key=attrgetter("number")):
            weights.setdefault(binding.destination, int(binding.routing_key))
        self._destinations = list(weights)
        self._ends = list(accumulate(weights.values()))
        return self._ends

    def _hashed_key(self, envelope: Envelope) -> bytes | float | None:
        """Return what is hashed; None where the message has no such header or property."""
        if self._header is not None:
            value = envelope.headers.get(self._header)
            if value is None:
                return None
            match value.value:
                case int(seconds) if value.kind == b"T":
                    return seconds * 1000  # as RabbitMQ keeps them
                case bytes() | int() | float() | None:
                    return value.value
            return repr(value.value).encode()
        if self._property is not None:
            text = getattr(envelope.properties, self._property)
            return None if text is None else str(text).encode("utf-8", "surrogateescape")
        return envelope.routing_keys[0].encode("utf-8", "surrogateescape")


def _hashed(arguments: Table) -> tuple[str | None, str | None]:
    """Return the header and the property that an exchange's arguments name; at most one."""
    name = _HEADER if _HEADER in arguments else _HEADER_ALIAS
    header, hashed_property = _text(arguments, name), _text(arguments, _PROPERTY)
    if header is not None and hashed_property is not None:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    if hashed_property is not None and hashed_property not in _PROPERTIES:
        raise PreconditionFailed(f"Unsupported property: {hashed_property}")
    return header, hashed_property


def _text(arguments: Table, name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if value.kind != b"S" or not isinstance(value.value, bytes):
        raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{name}'")
    return value.value.decode("utf-8", "surrogateescape")
