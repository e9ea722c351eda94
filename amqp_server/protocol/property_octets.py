"""Single basic properties in the octets of a property list: found, exchanged, put in.

For the few that the broker looks at or rewrites. All others stay as they came, octet for octet,
and cost nothing but being stepped over.

Source: AMQP 0-9-1 specification, sections 1.8 (class basic) and 4.2.6.1 (content header).
"""

from __future__ import annotations

HEADERS = 1 << 13
REPLY_TO = 1 << 9
EXPIRATION = 1 << 8
USER_ID = 1 << 4

_FIRST = 1 << 15
_BYTES_OF_FIXED = {1 << 12: 1, 1 << 11: 1, 1 << 6: 8}
"""Delivery mode, priority and timestamp."""


def find_property(properties: bytes, flag: int) -> tuple[int, int]:
    """Return where the octets of a property start and end, its length field included.

    Args:
        properties: One word of flags and the property list, as the scanner lets them pass.
        flag: One of this module's; it must be set in the flags.
    """
    present = properties[0] << 8 | properties[1]
    assert present & flag, "asked for a property that is absent"
    at = _start(properties, present, flag)
    return at, _end(properties, at, flag)


def replace_property(properties: bytes, flag: int, octets: bytes) -> bytes:
    """Return `properties` with other octets for one that is there, length field included."""
    start, end = find_property(properties, flag)
    return b"".join((properties[:start], octets, properties[end:]))


def with_property(properties: bytes, flag: int, octets: bytes) -> bytes:
    """Return `properties` with these octets for one that may be there or not.

    Args:
        properties: As for `find_property`.
        flag: One of this module's.
        octets: Of the property, its length field included.
    """
    present = properties[0] << 8 | properties[1]
    if present & flag:
        return replace_property(properties, flag, octets)
    at = _start(properties, present, flag)
    return b"".join(
        ((present | flag).to_bytes(2, "big"), properties[2:at], octets, properties[at:])
    )


def _start(properties: bytes, present: int, flag: int) -> int:
    """Return where the octets of a property start, or would start."""
    at, bit = 2, _FIRST
    while bit != flag:
        if present & bit:
            at = _end(properties, at, bit)
        bit >>= 1
    return at


def _end(properties: bytes, at: int, flag: int) -> int:
    if flag == HEADERS:
        return at + 4 + int.from_bytes(properties[at : at + 4], "big")
    fixed_bytes = _BYTES_OF_FIXED.get(flag)
    return at + 1 + properties[at] if fixed_bytes is None else at + fixed_bytes
