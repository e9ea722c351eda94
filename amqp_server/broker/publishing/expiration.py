"""The `expiration` of a message: milliseconds in decimal digits, checked at the publish.

Source: RabbitMQ, `rabbit_basic:parse_expiration` and its texts; it accepts `+5` too.
"""

from __future__ import annotations

import re

from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import erlang_string
from amqp_server.protocol.methods import BasicPublish

EXPIRATION_MS_MAX = 315_360_000_000
"""Ten years of 365 days: RabbitMQ's limit for all times to live."""

_NUMBER = re.compile(rb"[+-]?[0-9]+")
_DIGITS_ALWAYS_BELOW_MAX = len(str(EXPIRATION_MS_MAX)) - 1


def check_expiration(octets: bytes) -> None:
    """Check the value of the property `expiration`.

    Args:
        octets: Octets of the value, without the length.

    Raises:
        PreconditionFailed: The value is no number, negative, or too large.
    """
    if octets.isdigit() and len(octets) <= _DIGITS_ALWAYS_BELOW_MAX:
        return
    fault = _fault(octets)
    if fault is not None:
        shown = octets.decode("utf-8", "surrogateescape")
        raise PreconditionFailed(f"invalid expiration '{shown}': {fault}", *BasicPublish.ids)


def _fault(octets: bytes) -> str | None:
    number = _NUMBER.match(octets)
    if number is None:
        return "no_integer"
    rest = octets[number.end() :]
    if rest:
        return f"{{leftover_string,{erlang_string(rest)}}}"
    # The property is a short string, so there are at most 255 digits.
    value = int(number.group())
    if octets.startswith(b"-"):
        return f"{{value_negative,{value}}}"
    if value > EXPIRATION_MS_MAX:
        return f"{{value_too_large,{value}}}"
    return None
