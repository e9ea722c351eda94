"""Encoding of a headers table from plain Python values, for writers without an AMQP library.

`appendlog.layout.headers.decode_header_values` returns equal values, and any AMQP client can read
the table: bool `t`, int `I` (32 bits) or `l` (64 bits), float `d`, str `S` as UTF-8, bytes `x`,
None `V`, list `A`, dict `F`.

Source: AMQP 0-9-1 specification, section 4.2.5.5, with RabbitMQ's errata for the kinds.
"""

import struct
from collections.abc import Mapping
from struct import Struct
from typing import Final

from appendlog.layout.headers import HEADERS_BYTES_MAX, HEADERS_DEPTH_MAX, HeaderValue

_LENGTH: Final = Struct(">I")
_INT: Final = Struct(">ci")
_LONG: Final = Struct(">cq")
_DOUBLE: Final = Struct(">cd")
_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
_KEY_BYTES_MAX: Final = 255


def encode_header_values(headers: Mapping[str, HeaderValue]) -> bytes:
    """Return a headers table without its length, entries in the order of the mapping.

    Raises:
        ValueError: A key is longer than 255 bytes of UTF-8 or is not valid Unicode, a value is of
            another type or needs more than 64 bits, tables nest deeper than `HEADERS_DEPTH_MAX`,
            or the table is longer than `HEADERS_BYTES_MAX`.
    """
    try:
        table = _table(headers, 1)
    except (struct.error, UnicodeEncodeError) as error:
        raise ValueError(f"headers cannot be encoded: {error}") from error
    if len(table) > HEADERS_BYTES_MAX:
        raise ValueError(f"headers of {len(table)} bytes: maximum {HEADERS_BYTES_MAX}")
    return table


def _table(entries: Mapping[str, HeaderValue], depth: int) -> bytes:
    parts: list[bytes] = []
    for key, value in entries.items():
        name = key.encode()
        if len(name) > _KEY_BYTES_MAX:
            raise ValueError(f"header {key[:20]!r}... has {len(name)} bytes, the maximum is 255")
        parts += (bytes((len(name),)), name, _value(value, depth))
    return b"".join(parts)


def _value(value: HeaderValue, depth: int) -> bytes:
    match value:
        case None:
            return b"V"
        case bool():
            return b"t\x01" if value else b"t\x00"
        case int():
            is_short = _INT_MIN <= value <= _INT_MAX
            return _INT.pack(b"I", value) if is_short else _LONG.pack(b"l", value)
        case float():
            return _DOUBLE.pack(b"d", value)
        case str():
            return _long(b"S", value.encode())
        case bytes():
            return _long(b"x", value)
    if depth == HEADERS_DEPTH_MAX:
        raise ValueError(f"headers nest more than {HEADERS_DEPTH_MAX} levels")
    match value:
        case list():
            return _long(b"A", b"".join(_value(item, depth + 1) for item in value))
        case dict():
            return _long(b"F", _table(value, depth + 1))
    raise ValueError(f"headers cannot hold a {type(value).__name__}")


def _long(kind: bytes, content: bytes) -> bytes:
    return kind + _LENGTH.pack(len(content)) + content
