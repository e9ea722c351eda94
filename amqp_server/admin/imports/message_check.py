"""Checks that bytes are a message as the broker itself would have written it.

Another program may have changed the files of an export. Imported messages go into a log and then to
consumers, which trust the log.
"""

from __future__ import annotations

from typing import Final

from amqp_server.protocol.framing import delivery_mode_position, property_list_end
from appendlog.layout.message import (
    DEATHS_SHIFT,
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_PRIORITY,
    PERSISTENT,
    decode_message,
)

_FLAG_OF_BIT: Final = ((13, HAS_HEADERS), (8, HAS_EXPIRATION), (11, HAS_PRIORITY))
_DELIVERY_MODE_BIT: Final = 12
_PROPERTIES: Final = (1 << DEATHS_SHIFT) - 1
"""Flags that its properties require; those above count its deaths."""


def fault_of(message: bytes, body_bytes_max: int) -> str:
    """Return what is wrong with a message, in a few words; empty if nothing is.

    Args:
        message: Message as docs/log-format.md, section 5, defines it.
        body_bytes_max: Largest body in bytes that the server accepts.
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
    # A stream stores messages as persistent even if they were published as transient.
    if bits >> _DELIVERY_MODE_BIT & 1:
        at = delivery_mode_position(parts.properties, 2, bits)
        expected |= PERSISTENT if parts.properties[at] == 2 else 0
    flags = parts.flags & _PROPERTIES
    if flags & ~PERSISTENT != expected & ~PERSISTENT:
        return f"its flags are {flags}, but its properties require {expected}"
    if expected & PERSISTENT and not flags & PERSISTENT:
        return "its properties say that it is persistent, its flags that it is not"
    return ""
