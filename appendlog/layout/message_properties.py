"""The two basic properties that the log itself reads: priority and expiration.

They determine which chunks can hold messages that expire or have a priority. The other properties
stay opaque, except the headers, for readers that want them. Properties that do not parse count as
absent: the protocol layer has refused them long before, and the log must never fail because of
them.

Source: AMQP 0-9-1 section 4.2.6.1 and class basic: bit 15 is the first property.
"""

from typing import Final

NO_PRIORITY: Final = -1
NO_EXPIRATION: Final = -1
EXPIRATION_MILLISECONDS_MAX: Final = 10**12
"""Longest expiration (31 years); longer ones count as this one, so that sums fit in 64 bits."""

_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000
_DELIVERY_MODE: Final = 0x1000
_PRIORITY: Final = 0x0800
_CORRELATION_ID: Final = 0x0400
_REPLY_TO: Final = 0x0200
_EXPIRATION: Final = 0x0100


def priority_and_expiration(properties: bytes) -> tuple[int, int]:
    """Return `(priority, expiration in milliseconds)` of a property list in wire format.

    `NO_PRIORITY` and `NO_EXPIRATION` stand for absent or unreadable ones.
    """
    try:
        return _parse(properties)
    except IndexError:
        return NO_PRIORITY, NO_EXPIRATION


def headers_table(properties: bytes) -> bytes | None:
    """Return the headers table of a property list without its length; None if absent."""
    try:
        present, at = _headers_position(properties)
        if not present & _HEADERS:
            return None
        end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
        return properties[at + 4 : end] if end <= len(properties) else None
    except IndexError:
        return None


def _headers_position(properties: bytes) -> tuple[int, int]:
    """Return the first flag word, and the position where the headers are or would be."""
    present = properties[0] << 8 | properties[1]
    at = 2
    more = present & 1
    while more:
        more = properties[at + 1] & 1
        at += 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if present & flag:
            at += 1 + properties[at]
    return present, at


def _parse(properties: bytes) -> tuple[int, int]:
    present, at = _headers_position(properties)
    if present & _HEADERS:
        at += 4 + int.from_bytes(properties[at : at + 4], "big")
    if present & _DELIVERY_MODE:
        at += 1
    priority = NO_PRIORITY
    if present & _PRIORITY:
        priority = properties[at]
        at += 1
    for flag in (_CORRELATION_ID, _REPLY_TO):
        if present & flag:
            at += 1 + properties[at]
    if not present & _EXPIRATION:
        return priority, NO_EXPIRATION
    text = properties[at + 1 : at + 1 + properties[at]].removeprefix(b"+")
    if not text.isdigit():
        return priority, NO_EXPIRATION
    text = text.lstrip(b"0") or b"0"
    if len(text) > len(str(EXPIRATION_MILLISECONDS_MAX)):
        return priority, EXPIRATION_MILLISECONDS_MAX
    return priority, min(int(text), EXPIRATION_MILLISECONDS_MAX)
