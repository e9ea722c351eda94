"""What a program puts into a log and gets out of it, beside the message that lies on the disk.

An embedded log holds the same messages as a queue's (docs/log-format.md, section 5): the exchange
is empty, the key is the routing key, headers are the headers table, and delivery mode is 2, so
that a server, Spark and every tool read them as persistent messages of the default exchange.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from appendlog.layout.headers import HeaderValue, decode_header_values
from appendlog.layout.headers_encoding import encode_header_values
from appendlog.layout.message import (
    HAS_HEADERS,
    PERSISTENT,
    body_position,
    decode_message,
    encode_message,
)
from appendlog.layout.message_properties import headers_table

KEY_BYTES_MAX: Final = 255

_PLAIN_PROPERTIES: Final = b"\x10\x00\x02"  # delivery mode 2
_HEADERS_AND_MODE: Final = b"\x30\x00"
_PERSISTENT_MODE: Final = b"\x02"
_TABLE_LENGTH: Final = Struct(">I")

Headers = Mapping[str, HeaderValue]
"""None, bool, int of 64 bits, float, str, bytes, and lists and dicts of these, by name."""


@dataclass(frozen=True, slots=True)
class Record:
    """What goes into a log.

    Attributes:
        payload: Any bytes; copied when appended.
        key: At most 255 bytes; what sharding and routing go by.
        headers: None if there are none; an empty table is another thing.
    """

    payload: bytes
    key: bytes = b""
    headers: Headers | None = None


class AppendedRange(NamedTuple):
    """The offsets that a batch was given; there are no others between them.

    Attributes:
        base_offset: Of the first record.
        last_offset: Of the last one, inclusive.
    """

    base_offset: int
    last_offset: int


class StoredRecord:
    """A record as it lies in a log; its parts are cut out when they are asked for.

    Attributes:
        offset: Its number in the log.
        timestamp_ns: When it was appended, nanoseconds since 1970 UTC; never less than that of
            the record before.
        message: All of it, as docs/log-format.md draws it in section 5.
    """

    __slots__ = ("message", "offset", "timestamp_ns")

    def __init__(self, offset: int, timestamp_ns: int, message: bytes) -> None:
        self.offset = offset
        self.timestamp_ns = timestamp_ns
        self.message = message

    def __repr__(self) -> str:
        return f"StoredRecord(offset={self.offset}, key={self.key!r}, payload={self.payload!r})"

    @property
    def payload(self) -> bytes:
        """What was appended; a copy."""
        return self.message[body_position(self.message) :]

    @property
    def key(self) -> bytes:
        """The routing key."""
        return decode_message(self.message).routing_key

    @property
    def properties(self) -> bytes:
        """The property list of the content header, as on the wire."""
        return decode_message(self.message).properties

    @property
    def headers(self) -> dict[str, HeaderValue] | None:
        """The headers; None if there are none.

        Raises:
            MalformedHeadersError: A client of a server has sent what is no headers table.
        """
        table = headers_table(self.properties)
        return None if table is None else decode_header_values(table)


def message_prefix(key: bytes = b"", headers: Headers | None = None) -> bytes:
    """Return what stands before the payload in the message of a record.

    Raises:
        ValueError: The key is longer than 255 bytes, or the headers cannot be written.
    """
    if len(key) > KEY_BYTES_MAX:
        raise ValueError(f"key has {len(key)} bytes, at most {KEY_BYTES_MAX}")
    if headers is None:
        return encode_message(PERSISTENT, b"", key, _PLAIN_PROPERTIES, b"")
    table = encode_header_values(headers)
    properties = b"".join(
        (_HEADERS_AND_MODE, _TABLE_LENGTH.pack(len(table)), table, _PERSISTENT_MODE)
    )
    return encode_message(PERSISTENT | HAS_HEADERS, b"", key, properties, b"")


def payloads_of(messages: list[bytes]) -> list[bytes]:
    """Return the payloads of messages; neighbours mostly have the same key and headers."""
    payloads: list[bytes] = []
    prefix = b""
    start = 0
    for message in messages:
        if not start or not message.startswith(prefix):
            start = body_position(message)
            prefix = message[:start]
        payloads.append(message[start:])
    return payloads
