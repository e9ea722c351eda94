"""`x-delay`: the header that says how long a delayed exchange keeps a message.

The value is in milliseconds. A message without it, or with 0 or less, is routed at once. The
exchange negates the number when it forwards the message, so that no other delayed exchange on the
way keeps the message again.

Source: plugin rabbitmq_delayed_message_exchange, `rabbit_delayed_message_utils`.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from amqp_server.broker.transfers.message_headers import with_header
from amqp_server.protocol.field_comparison import INTEGER_KINDS
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

DELAYED_KIND = "x-delayed-message"
"""Type of a delayed exchange."""
DELAYED_TYPE = "x-delayed-type"
"""Argument of a delayed exchange: the exchange type that it routes like."""
X_DELAY = "x-delay"

_DELAY_MS_MAX = (1 << 63) - 1
_INT32_MIN = -(1 << 31)


def delay_ms(headers: Table) -> int:
    """Return the delay that the headers ask for, in milliseconds; 0 for none."""
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
    """Return a message with its delay negated; all other octets stay.

    Args:
        message: Message whose headers ask for a delay.
        headers: Its headers.
    """
    number = -delay_ms(headers)
    negated = FieldValue(b"I" if number >= _INT32_MIN else b"l", number)
    return with_header(message, X_DELAY, negated)
