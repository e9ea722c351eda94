"""Finds and replaces single basic properties in the octets of a property list.

The broker reads or changes only a few properties. All others stay unchanged, octet for octet, and
are only skipped.

Source: AMQP 0-9-1 specification, sections 1.8 (class basic) and 4.2.6.1 (content header).
"""

from __future__ import annotations

HEADERS = 1 << 13
REPLY_TO = 1 << 9
EXPIRATION = 1 << 8
USER_ID = 1 << 4

_FIRST = 1 << 15
_BYTES_OF_FIXED = {1 << 12: 1, 1 << 11: 1, 1 << 6: 8}
"""Lengths of delivery mode, priority and timestamp."""


def find_property(properties: bytes, flag: int) -> tuple[int, int]:
    """Return start and end of a property's octets, its length field included.

    Args:
        properties: One word of flags and the property list, checked by the scanner.
        flag: A flag of this module; it must be set in the properties.
    """
    present = properties[0] << 8 | properties[1]
    assert present & flag, "asked for a property that is absent"
    at = _start(properties, present, flag)
    return at, _end(properties, at, flag)


def replace_property(properties: bytes, flag: int, octets: bytes) -> bytes:
    """Return `properties` with other octets for a present one, its length field included."""
    start, end = find_property(properties, flag)
    return b"".join((properties[:start], octets, properties[end:]))


def with_property(properties: bytes, flag: int, octets: bytes) -> bytes:
    """Return `properties` with these octets for a property that may be present or absent.

    Args:
        properties: One word of flags and the property list, checked by the scanner.
        flag: A flag of this module.
        octets: Octets of the property, its length field included.
    """
    present = properties[0] << 8 | properties[1]
    if present & flag:
        return replace_property(properties, flag, octets)
    at = _start(properties, present, flag)
    return b"".join(
        ((present | flag).to_bytes(2, "big"), properties[2:at], octets, properties[at:])
    )


def _start(properties: bytes, present: int, flag: int) -> int:
    """Return where the octets of a property start, or would start if it is absent."""
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
