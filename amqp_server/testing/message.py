"""A message as a test looks at it, with headers as ordinary Python values."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from amqp_server.protocol.field_values import DecimalValue
from amqp_server.protocol.properties import Properties, decode_properties
from appendlog import decode_message

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        exchange: Name of the exchange that it was published to; empty for the default exchange.
        routing_key: Routing key that it was published with.
        body: Body.
        headers: Headers as Python values; empty if it has none.
        properties: The other properties.
        queues: Names of the queues that it went to, or of the one that holds it. Empty: it was
            unroutable.
        state: `ready` or `unacked` in a queue; empty for a message that was published.
    """

    exchange: str
    routing_key: str
    body: bytes
    headers: dict[str, Any]
    properties: Properties
    queues: tuple[str, ...]
    state: str = ""

    @classmethod
    def decode(cls, octets: bytes, queues: tuple[str, ...], state: str = "") -> Message:
        """Return the message that the broker stores as these octets."""
        parts = decode_message(octets)
        properties = decode_properties(parts.properties)
        return cls(
            parts.exchange.decode("utf-8", "surrogateescape"),
            parts.routing_key.decode("utf-8", "surrogateescape"),
            parts.body,
            plain_table(properties.headers or {}),
            replace(properties, headers=None),
            queues,
            state,
        )

    @property
    def is_unroutable(self) -> bool:
        """Whether it went to no queue."""
        return not self.queues

    def json(self) -> Any:  # noqa: ANN401 - as json.loads
        """Return what the body says in JSON.

        Raises:
            ValueError: The body is no JSON.
        """
        return json.loads(self.body)


def plain_table(table: Table) -> dict[str, Any]:
    """Return a table as a dict.

    Texts become str, those that are not UTF-8 bytes; times become seconds since 1970.
    """
    return {name: _plain(field.kind, field.value) for name, field in table.items()}


def _plain(kind: bytes, value: Any) -> Any:  # noqa: ANN401 - as the kind says
    if kind == b"F":
        return plain_table(value)
    if kind == b"A":
        return [_plain(each.kind, each.value) for each in value]
    if isinstance(value, DecimalValue):
        return Decimal(value.unscaled).scaleb(-value.scale)
    if kind == b"S":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
