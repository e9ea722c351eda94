"""Records of an embedded log, as a program writes and reads them.

An embedded log holds the same messages as a queue (docs/log-format.md, section 5). The exchange is
empty, the key is the routing key, headers are the headers table, and delivery mode is 2. So a
server, Spark and every tool read them as persistent messages of the default exchange.
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
"""Headers: None, bool, 64-bit int, float, str, bytes, and lists and dicts of these, by name."""


@dataclass(frozen=True, slots=True)
class Record:
    """Record to append.

    Attributes:
        payload: Any bytes; copied by the append.
        key: Routing key, at most 255 bytes; used by sharding and routing.
        headers: Headers, or None; an empty table is different from None.
    """

    payload: bytes
    key: bytes = b""
    headers: Headers | None = None


class AppendedRange(NamedTuple):
    """Offsets of a batch, consecutive.

    Attributes:
        base_offset: Offset of the first record.
        last_offset: Offset of the last record, inclusive.
    """

    base_offset: int
    last_offset: int


class StoredRecord:
    """Record of a log; its parts are decoded on access.

    Attributes:
        offset: Offset of the record.
        timestamp_ns: Append time, nanoseconds since 1970 UTC; never below that of the record
            before.
        message: Whole message; docs/log-format.md, section 5, describes it.
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
        """Payload of the record; a copy."""
        return self.message[body_position(self.message) :]

    @property
    def key(self) -> bytes:
        """Routing key of the record."""
        return decode_message(self.message).routing_key

    @property
    def properties(self) -> bytes:
        """Property list of the content header, in wire format."""
        return decode_message(self.message).properties

    @property
    def headers(self) -> dict[str, HeaderValue] | None:
        """Headers of the record; None if there are none.

        Raises:
            MalformedHeadersError: The table of a server's client is not a valid headers table.
        """
        table = headers_table(self.properties)
        return None if table is None else decode_header_values(table)


def message_prefix(key: bytes = b"", headers: Headers | None = None) -> bytes:
    """Return the octets before the payload in the message of a record.

    Raises:
        ValueError: The key is longer than 255 bytes, or the headers cannot be encoded.
    """
    if len(key) > KEY_BYTES_MAX:
        raise ValueError(f"key has {len(key)} bytes, the maximum is {KEY_BYTES_MAX}")
    if headers is None:
        return encode_message(PERSISTENT, b"", key, _PLAIN_PROPERTIES, b"")
    table = encode_header_values(headers)
    properties = b"".join(
        (_HEADERS_AND_MODE, _TABLE_LENGTH.pack(len(table)), table, _PERSISTENT_MODE)
    )
    return encode_message(PERSISTENT | HAS_HEADERS, b"", key, properties, b"")


def payloads_of(messages: list[bytes]) -> list[bytes]:
    """Return the payloads of messages; fast if neighbours have the same key and headers."""
    payloads: list[bytes] = []
    prefix = b""
    start = 0
    for message in messages:
        if not start or not message.startswith(prefix):
            start = body_position(message)
            prefix = message[:start]
        payloads.append(message[start:])
    return payloads
