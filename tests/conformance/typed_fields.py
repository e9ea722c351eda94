"""Field tables that show the type of each value, which pamqp hides.

A value is a `Typed`: its type's letter on the wire, and what it holds. Written from RabbitMQ's
dialect of the specification (`s` is a signed 16-bit integer, `l` a signed 64-bit one).
"""

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pamqp.commands import Basic, Queue

from tests.amqp_client import FRAME_OVERHEAD_BYTES, AmqpClient

PASSIVE: Final = 1 << 0
DURABLE: Final = 1 << 1
EXCLUSIVE: Final = 1 << 2
"""Bits of queue.declare."""
FIXED: Final = {
    "t": ">?",
    "b": ">b",
    "B": ">B",
    "s": ">h",
    "u": ">H",
    "I": ">i",
    "i": ">I",
    "l": ">q",
    "T": ">Q",
    "f": ">f",
    "d": ">d",
}
_FRAME_HEADER_BYTES: Final = 7
_CLASS_WEIGHT_SIZE_BYTES: Final = 12
_HEADERS_FLAG: Final = 1 << 13
_SHORTSTR_FLAGS_BEFORE: Final = (1 << 15, 1 << 14)


class Typed(NamedTuple):
    """A field value; tables and arrays hold values of this class again."""

    kind: str
    value: Any


def encode_table(fields: Mapping[str, Typed]) -> bytes:
    """Return a field table with its length."""
    octets = b"".join(
        bytes([len(key)]) + key.encode() + field.kind.encode() + _encode(field)
        for key, field in fields.items()
    )
    return struct.pack(">I", len(octets)) + octets


def send_declaration(
    client: AmqpClient,
    queue: str,
    arguments: Mapping[str, Typed] | None = None,
    *,
    flags: int = DURABLE,
) -> None:
    """Send a queue.declare of any name at all, with arguments of exactly these types."""
    name = queue.encode()
    head = struct.pack(">IH", Queue.Declare.index, 0) + bytes([len(name)]) + name
    client.send_method(head + bytes([flags]) + encode_table(arguments or {}))


def get_typed_headers(client: AmqpClient, queue: str) -> dict[str, Typed]:
    """Take a message that is there, with a body of one frame, and return its headers."""
    client.send(Basic.Get(queue=queue, no_ack=True))
    frames = _Frames(client)
    frames.next()
    payload = frames.next()
    frames.next()
    return _headers(payload[_CLASS_WEIGHT_SIZE_BYTES:])


class _Frames:
    """Cuts what comes next into payloads, undecoded."""

    def __init__(self, client: AmqpClient) -> None:
        self._client = client
        self._octets = b""

    def next(self) -> bytes:
        self._fill(_FRAME_HEADER_BYTES)
        size = int.from_bytes(self._octets[3:7], "big")
        self._fill(size + FRAME_OVERHEAD_BYTES)
        payload = self._octets[_FRAME_HEADER_BYTES : _FRAME_HEADER_BYTES + size]
        self._octets = self._octets[size + FRAME_OVERHEAD_BYTES :]
        return payload

    def _fill(self, size: int) -> None:
        while len(self._octets) < size:
            self._octets += self._client.receive_raw()


def _headers(properties: bytes) -> dict[str, Typed]:
    flags = int.from_bytes(properties[:2], "big")
    assert flags & _HEADERS_FLAG, "no headers"
    at = 2
    for flag in _SHORTSTR_FLAGS_BEFORE:
        if flags & flag:
            at += 1 + properties[at]
    return _decode_table(properties, at)[0]


def _decode_table(octets: bytes, at: int) -> tuple[dict[str, Typed], int]:
    end = at + 4 + int.from_bytes(octets[at : at + 4], "big")
    at += 4
    fields: dict[str, Typed] = {}
    while at < end:
        key_end = at + 1 + octets[at]
        key = octets[at + 1 : key_end].decode()
        fields[key], at = _decode(octets, key_end)
    return fields, end


def _decode(octets: bytes, at: int) -> tuple[Typed, int]:
    kind = chr(octets[at])
    at += 1
    if kind == "V":
        return Typed(kind, None), at
    if layout := FIXED.get(kind):
        return Typed(kind, struct.unpack_from(layout, octets, at)[0]), at + struct.calcsize(layout)
    if kind == "F":
        table, end = _decode_table(octets, at)
        return Typed(kind, table), end
    end = at + 4 + int.from_bytes(octets[at : at + 4], "big")
    if kind == "S":
        return Typed(kind, octets[at + 4 : end].decode()), end
    assert kind == "A", f"type {kind!r} is not read here"
    at += 4
    items: list[Typed] = []
    while at < end:
        item, at = _decode(octets, at)
        items.append(item)
    return Typed(kind, items), end


def _encode(field: Typed) -> bytes:
    if layout := FIXED.get(field.kind):
        return struct.pack(layout, field.value)
    if field.kind == "V":
        return b""
    if field.kind == "F":
        return encode_table(field.value)
    if field.kind == "S":
        octets: bytes = field.value.encode()
    else:
        assert field.kind == "A", f"type {field.kind!r} is not written here"
        octets = b"".join(item.kind.encode() + _encode(item) for item in field.value)
    return struct.pack(">I", len(octets)) + octets
