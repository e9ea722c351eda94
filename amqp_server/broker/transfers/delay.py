"""`x-delay`: the header that says how long a delayed exchange keeps a message.

Milliseconds; a message without it, or with 0 or less, is not kept. When a message is let go the
number is negated, so that no other delayed exchange on its way keeps it again.

Source: plugin rabbitmq_delayed_message_exchange, `rabbit_delayed_message_utils`.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from amqp_server.protocol.field_comparison import INTEGER_KINDS
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.property_octets import HEADERS, find_property, replace_property
from amqp_server.protocol.strings import encode_longstr
from amqp_server.protocol.tables import encode_table, table_without
from appendlog.message import body_position, properties_position, with_properties

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

DELAYED_KIND = "x-delayed-message"
"""The exchange type."""
DELAYED_TYPE = "x-delayed-type"
"""Its argument: the type that it routes as."""
X_DELAY = "x-delay"

_DELAY_MS_MAX = (1 << 63) - 1
_INT32_MIN = -(1 << 31)


def delay_ms(headers: Table) -> int:
    """Return for how long the headers ask, in milliseconds; 0 if they ask for nothing."""
    value = headers.get(X_DELAY)
    if value is None:
        return 0
    number = 0
    match value.value:
        case int() if value.kind in INTEGER_KINDS:
            number = value.value
        case float() if isfinite(value.value):
            number = int(value.value)
        case bytes() if value.kind == b"S" and value.value.isdigit() and len(value.value) < 20:
            number = int(value.value)
    return min(max(number, 0), _DELAY_MS_MAX)


def with_delay_negated(message: bytes, headers: Table) -> bytes:
    """Return a message that was kept, as it is let go; all other octets stay.

    Args:
        message: With headers that ask for a delay.
        headers: Its headers.
    """
    number = -delay_ms(headers)
    negated = FieldValue(b"I" if number >= _INT32_MIN else b"l", number)
    properties = message[properties_position(message) : body_position(message)]
    start, end = find_property(properties, HEADERS)
    others = table_without(properties[start:end], X_DELAY)[4:]
    table = encode_longstr(others + encode_table({X_DELAY: negated})[4:])
    return with_properties(message, replace_property(properties, HEADERS, table))
