"""An event as a message: everything is in the headers, and the body is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import HAS_HEADERS, PERSISTENT, encode_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.protocol.field_values import Table

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
"""Exchange of the events, in the virtual host `EVENT_VHOST`."""
EVENT_VHOST: Final = "/"
_DELIVERY_MODE: Final = 2
_INT64: Final = 1 << 63


def event_message(routing_key: str, headers: Mapping[str, object], time_ns: int) -> bytes:
    """Return the message of an event, as in the log.

    Args:
        routing_key: Name of the event.
        headers: Texts, octets, whole numbers, truth values, lists and tables.
        time_ns: When it happened, in nanoseconds since 1970 UTC.
    """
    table = _table(headers)
    table["timestamp_in_ms"] = FieldValue(b"l", time_ns // 10**6)
    properties = Properties(headers=table, delivery_mode=_DELIVERY_MODE, timestamp=time_ns // 10**9)
    return encode_message(
        PERSISTENT | HAS_HEADERS,
        EVENT_EXCHANGE.encode(),
        routing_key.encode("utf-8", "surrogateescape")[:255],
        properties.encode(),
        b"",
    )


def _table(values: Mapping[str, object]) -> Table:
    return {str(name): _value(value) for name, value in values.items()}


def _value(value: object) -> FieldValue:
    """Wrap a value in the kind that RabbitMQ's events have: every whole number is a long."""
    match value:
        case FieldValue():
            return value
        case None:
            return FieldValue(b"S", b"")
        case bool():
            return FieldValue(b"t", value)
        case int() if -_INT64 <= value < _INT64:
            return FieldValue(b"l", value)
        case float():
            return FieldValue(b"d", value)
        case bytes():
            return FieldValue(b"S", value)
        case dict():
            return FieldValue(b"F", _table(value))
        case list() | tuple():
            return FieldValue(b"A", [_value(each) for each in value])
    return FieldValue(b"S", str(value).encode("utf-8", "surrogateescape"))
