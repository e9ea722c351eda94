"""The headers among a message's properties, for readers that want them.

The log itself reads only priority and expiration (`priority_and_expiration` in
`appendlog.layout.records`); all other properties stay opaque. Properties that do not parse count as
absent: the protocol layer has refused them long before, and the log must never fail because of
them.

Source: AMQP 0-9-1 section 4.2.6.1 and class basic: bit 15 is the first property.
"""

from typing import Final

_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000


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
