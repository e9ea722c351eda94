"""Consistent-hash exchange: each message to one destination, shared out by weights.

The binding key is the destination's weight. What is hashed is the routing key, or a header or a
property that the exchange's arguments name: what hashes alike goes to one destination, on every
server and after every restart.

The destination is found by weighted rendezvous hashing: every destination draws a number from the
message's hash and its own name, exponentially distributed with its weight as the rate, and the
smallest wins. So the shares are exact whatever the weights, a new destination takes its share
evenly from the others, and one that leaves gives back only its own. There is no ring to keep; a
message that no one remembers the way of costs one draw for each destination.

Source: RabbitMQ, plugin rabbitmq_consistent_hash_exchange, for arguments and texts; Thaler and
Ravishankar, "Using name-based mappings to increase hit rates", 1998, for the hashing.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from math import log
from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher
from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import erlang_binary, type_name
from amqp_server.protocol.strings import encode_shortstr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.protocol.tables import Table

_HEADER, _HEADER_ALIAS, _PROPERTY = "hash-header", "x-hash-on", "hash-property"
_PROPERTIES = ("message_id", "correlation_id", "timestamp")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MASK = (1 << 64) - 1


class ConsistentHashMatcher(Matcher):
    """Destinations with their weights.

    Args:
        arguments: Of the exchange: `hash-header` (or LavinMQ's `x-hash-on`) or `hash-property`.

    Raises:
        PreconditionFailed: Both are there, or one has a value that it cannot have.
    """

    def __init__(self, arguments: Table) -> None:
        """Begin without bindings."""
        self._header, self._property = _hashed(arguments)
        self.routes_singly = self._header is not None or self._property is not None
        self._bindings: dict[Destination, list[Binding]] = {}
        self._draws: list[tuple[int, float, Destination]] = []

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check that the key is a weight."""
        if _INTEGER.fullmatch(routing_key) is None:
            shown = erlang_binary(routing_key.encode("utf-8", "surrogateescape"))
            raise PreconditionFailed(f"The binding key must be an integer: {shown}")
        if int(routing_key) <= 0:
            raise PreconditionFailed("The binding key must be greater than 0")

    def add(self, binding: Binding) -> None:
        """Take in a binding; while its destination has an older one, that one's weight counts."""
        self._bindings.setdefault(binding.destination, []).append(binding)
        self._arrange()

    def remove(self, binding: Binding) -> None:
        """Forget a binding."""
        bindings = self._bindings[binding.destination]
        bindings.remove(binding)
        if not bindings:
            del self._bindings[binding.destination]
        self._arrange()

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the one destination of the message; none if there are no bindings."""
        if not self._draws:
            return ()
        hashed = _hash(self._hashed_octets(envelope))
        return (min(self._draws, key=lambda draw: -log(_uniform(hashed ^ draw[0])) / draw[1])[2],)

    def _arrange(self) -> None:
        self._draws = [
            (_seed(bindings[0]), float(int(bindings[0].routing_key)), destination)
            for destination, bindings in self._bindings.items()
        ]

    def _hashed_octets(self, envelope: Envelope) -> bytes:
        """Return what is hashed; nothing where the message has no such header or property."""
        if self._header is not None:
            value = envelope.headers.get(self._header)
            if value is None:
                return b""
            return value.value if isinstance(value.value, bytes) else repr(value.value).encode()
        if self._property is not None:
            text = getattr(envelope.properties, self._property)
            return b"" if text is None else str(text).encode("utf-8", "surrogateescape")
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


def _seed(binding: Binding) -> int:
    identity = binding.identity
    return _hash(encode_shortstr(identity.kind) + encode_shortstr(identity.destination))


def _hash(octets: bytes) -> int:
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")


def _uniform(bits: int) -> float:
    """Return a number above 0 and at most 1 for 64 bits: splitmix64's last step."""
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return ((bits ^ bits >> 31) + 1) / (_MASK + 1)
