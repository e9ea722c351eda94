"""Whether bytes are a message as the broker itself would have written it.

An export is a file that anybody may have changed; what comes out of it goes into a log, and
from there to consumers, which trust the log.
"""

from __future__ import annotations

from typing import Final

from amqp_server.protocol.framing import delivery_mode_position, property_list_end
from appendlog.layout.message import (
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_PRIORITY,
    PERSISTENT,
    decode_message,
)

_FLAG_OF_BIT: Final = ((13, HAS_HEADERS), (8, HAS_EXPIRATION), (11, HAS_PRIORITY))
_DELIVERY_MODE_BIT: Final = 12
_KNOWN: Final = PERSISTENT | HAS_HEADERS | HAS_EXPIRATION | HAS_PRIORITY


def fault_of(message: bytes, body_bytes_max: int) -> str:
    """Return what is wrong with a message, in a few words; empty when nothing is.

    Args:
        message: As docs/log-format.md draws it, section 5.
        body_bytes_max: Of bodies that the server accepts.
    """
    try:
        parts = decode_message(message)
    except (ValueError, IndexError) as error:
        return str(error)
    if len(parts.body) > body_bytes_max:
        return f"its body has {len(parts.body)} bytes, the server accepts {body_bytes_max}"
    if len(parts.properties) < 2:
        return "it has no property flags"
    bits = int.from_bytes(parts.properties[:2], "big")
    if bits & 3 or property_list_end(parts.properties, 2, len(parts.properties), bits) != len(
        parts.properties
    ):
        return "its properties do not add up"
    expected = sum(flag for bit, flag in _FLAG_OF_BIT if bits >> bit & 1)
    # A stream keeps what was published as transient, as persistent.
    if bits >> _DELIVERY_MODE_BIT & 1:
        at = delivery_mode_position(parts.properties, 2, bits)
        expected |= PERSISTENT if parts.properties[at] == 2 else 0
    if parts.flags & ~PERSISTENT != expected & ~PERSISTENT or parts.flags & ~_KNOWN:
        return f"its flags are {parts.flags}, those of its properties {expected}"
    if expected & PERSISTENT and not parts.flags & PERSISTENT:
        return "it is persistent by its properties, and not by its flags"
    return ""
