"""Basic properties: the typed fields of a content header.

A content header's payload starts with 12 octets of class id, weight and body size. This module
reads and writes what follows: flag words, then the present properties in order. The first flag word
has one bit for each property, content_type in bit 15 down to cluster_id in bit 2; bit 0 says that
another word follows.

Source: AMQP 0-9-1 specification, sections 1.8 (class basic) and 4.2.6.1 (content header).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.strings import decode_shortstr, encode_shortstr
from amqp_server.protocol.tables import Table, decode_table, encode_table

_FLAGS = Struct(">H")
_CONTINUATION = 0x0001
_UNKNOWN_PROPERTIES = 0x0002


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties that a publisher gives a message; None where a property is absent.

    Attributes:
        content_type: MIME type of the body.
        content_encoding: MIME encoding of the body.
        headers: Table of the application; its values are shared, not copied.
        delivery_mode: 0 to 255; 2 is persistent.
        priority: 0 to 255.
        correlation_id: For use by applications.
        reply_to: Name of the queue for the reply.
        expiration: Milliseconds to live, in decimal digits.
        message_id: For use by applications.
        timestamp: Seconds since 1970 as the publisher set it, unsigned 64 bits.
        type: Name of the kind of message, for use by applications.
        user_id: Name of the user; must be the one who is logged in.
        app_id: For use by applications.
        cluster_id: Reserved since 0-9-1, passed on.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def encode(self) -> bytes:
        """Return flag word and property list, as they follow octet 12 of a content header.

        Raises:
            FieldSyntaxError: A value does not fit its property.
        """
        flags = 0
        parts = [b""]
        try:
            for name, flag, _, encode in _CODECS:
                value = getattr(self, name)
                if value is not None:
                    flags |= flag
                    parts.append(encode(value))
        except struct.error as error:
            raise FieldSyntaxError(f"basic property out of range: {error}") from error
        parts[0] = _FLAGS.pack(flags)
        return b"".join(parts)


def decode_properties(data: bytes) -> Properties:
    """Decode flag words and property list: the octets of a content header from octet 12.

    Raises:
        FieldSyntaxError: A property is malformed, cut short or unknown, or bytes are left over.
    """
    try:
        flags, position = _decode_flags(data)
        values: dict[str, Any] = {}
        for name, flag, decode, _ in _CODECS:
            if flags & flag:
                values[name], position = decode(data, position)
    except struct.error as error:
        raise FieldSyntaxError("basic properties are cut short") from error
    if position != len(data):
        raise FieldSyntaxError(f"{len(data) - position} bytes after the basic properties")
    return Properties(**values)


def _decode_flags(data: bytes) -> tuple[int, int]:
    """Return the first flag word and the position after the last one."""
    flags: int = _FLAGS.unpack_from(data)[0]
    position = _FLAGS.size
    word = flags
    unknown = flags & _UNKNOWN_PROPERTIES
    while word & _CONTINUATION:
        word = _FLAGS.unpack_from(data, position)[0]
        position += _FLAGS.size
        unknown |= word & ~_CONTINUATION
    # The length of an unknown property's value is unknown too.
    if unknown:
        raise FieldSyntaxError("unknown basic property")
    return flags, position


def _decode_number(form: Struct, data: bytes, position: int) -> tuple[int, int]:
    return form.unpack_from(data, position)[0], position + form.size


_OCTET = Struct(">B")
_TIMESTAMP = Struct(">Q")
_Decode = Callable[[bytes, int], tuple[Any, int]]
_Encode = Callable[[Any], bytes]
_SHORTSTR: tuple[_Decode, _Encode] = (decode_shortstr, encode_shortstr)
_TABLE: tuple[_Decode, _Encode] = (decode_table, encode_table)
_NUMBER: tuple[_Decode, _Encode] = (partial(_decode_number, _OCTET), _OCTET.pack)
_TIME: tuple[_Decode, _Encode] = (partial(_decode_number, _TIMESTAMP), _TIMESTAMP.pack)

_CODECS: tuple[tuple[str, int, _Decode, _Encode], ...] = (
    ("content_type", 1 << 15, *_SHORTSTR),
    ("content_encoding", 1 << 14, *_SHORTSTR),
    ("headers", 1 << 13, *_TABLE),
    ("delivery_mode", 1 << 12, *_NUMBER),
    ("priority", 1 << 11, *_NUMBER),
    ("correlation_id", 1 << 10, *_SHORTSTR),
    ("reply_to", 1 << 9, *_SHORTSTR),
    ("expiration", 1 << 8, *_SHORTSTR),
    ("message_id", 1 << 7, *_SHORTSTR),
    ("timestamp", 1 << 6, *_TIME),
    ("type", 1 << 5, *_SHORTSTR),
    ("user_id", 1 << 4, *_SHORTSTR),
    ("app_id", 1 << 3, *_SHORTSTR),
    ("cluster_id", 1 << 2, *_SHORTSTR),
)
