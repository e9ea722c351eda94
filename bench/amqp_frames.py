"""The few AMQP 0-9-1 frames that the load generator sends and reads.

This code is written from the specification and shares nothing with the server's codec. If both
shared code, the same fault on both sides would go unnoticed.

Source: AMQP 0-9-1, sections 2.3.5 (frames), 4.2.3 (method frames), 4.2.6 (content).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.errors import UnexpectedFrameError

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
FRAME_END: Final = 0xCE
FRAME_OVERHEAD_BYTES: Final = 8
"""Bytes of a frame around its payload: type, channel and size before it, the end octet after it."""

FRAME_BYTES_MAX: Final = 131_072
"""Largest frame that is sent: what brokers and clients agree on unless told otherwise."""

BASIC: Final = 60
CONNECTION_CLOSE: Final = (10, 50)
CHANNEL_CLOSE: Final = (20, 40)
PERSISTENT: Final = 2
EMPTY_TABLE: Final = struct.pack(">I", 0)
CLOSE_ARGUMENTS: Final = struct.pack(">HBHH", 200, 0, 0, 0)
"""Arguments of connection.close and channel.close: reply code 200, no text, no failed method."""

_FRAME_HEADER: Final = struct.Struct(">BHI")
_METHOD_ID: Final = struct.Struct(">HH")
_DELIVERY_MODE_ONLY: Final = 1 << 12
_ACK_FRAME: Final = struct.Struct(">BHIHHQBB")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame that the broker sent.

    Attributes:
        kind: METHOD, HEADER, BODY, or 8 for a heartbeat.
        channel: Channel number; 0 stands for the connection itself.
        payload: Bytes between the frame's header and its end octet.
    """

    kind: int
    channel: int
    payload: bytes

    @property
    def method_id(self) -> tuple[int, int] | None:
        """Class and method number; None if this is not a method frame."""
        if self.kind != METHOD or len(self.payload) < _METHOD_ID.size:
            return None
        class_id, method_id = _METHOD_ID.unpack_from(self.payload)
        return class_id, method_id

    @property
    def wire_bytes(self) -> int:
        """Size of the whole frame on the wire."""
        return len(self.payload) + FRAME_OVERHEAD_BYTES

    def describe(self) -> str:
        """Return the frame in words for an error; a close is described by its reply text."""
        if self.method_id in (CONNECTION_CLOSE, CHANNEL_CLOSE):
            text_end = 7 + self.payload[6]
            return f"a close: {self.payload[7:text_end].decode(errors='replace')}"
        if self.method_id is None:
            return f"a frame of type {self.kind} on channel {self.channel}"
        return f"method {self.method_id} on channel {self.channel}"


def short_string(text: str) -> bytes:
    """Encode a shortstr; at most 255 bytes of UTF-8.

    Raises:
        ValueError: The text is longer.
    """
    octets = text.encode()
    return bytes((len(octets),)) + octets


def long_string(octets: bytes) -> bytes:
    """Encode a longstr."""
    return struct.pack(">I", len(octets)) + octets


def text_table(**fields: str) -> bytes:
    """Encode a field table whose values are texts; an underscore in a name becomes a hyphen."""
    entries = (
        short_string(name.replace("_", "-")) + b"S" + long_string(value.encode())
        for name, value in fields.items()
    )
    return long_string(b"".join(entries))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode a frame with this payload."""
    return _FRAME_HEADER.pack(kind, channel, len(payload)) + payload + bytes((FRAME_END,))


def body_pieces(body: bytes) -> list[bytes]:
    """Return what each frame of a body has of it; an empty one has no frame."""
    most = FRAME_BYTES_MAX - FRAME_OVERHEAD_BYTES
    return [body[at : at + most] for at in range(0, len(body), most)]


def method_frame(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """Encode a method frame; `arguments` are encoded already."""
    return frame(METHOD, channel, _METHOD_ID.pack(class_id, method_id) + arguments)


def publish_prefix(
    channel: int, exchange: str, routing_key: str, body_bytes: int, persistent: bool
) -> bytes:
    """Encode a basic.publish and its content header, which stand before the body frame.

    Args:
        channel: Channel number, from 1.
        exchange: Name of the exchange; "" is the default exchange.
        routing_key: Routing key; in the default exchange, the queue's name.
        body_bytes: Size of each body.
        persistent: Whether delivery_mode is 2; if not, the header has no properties.
    """
    arguments = b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0"
    properties = (
        struct.pack(">HB", _DELIVERY_MODE_ONLY, PERSISTENT) if persistent else struct.pack(">H", 0)
    )
    header = struct.pack(">HHQ", BASIC, 0, body_bytes) + properties
    return method_frame(channel, BASIC, 40, arguments) + frame(HEADER, channel, header)


def acknowledge(channel: int, delivery_tag: int) -> bytes:
    """Encode a basic.ack of all deliveries up to and including a tag."""
    return _ACK_FRAME.pack(METHOD, channel, 13, BASIC, 80, delivery_tag, 1, FRAME_END)


def try_parse_frame(octets: bytes | bytearray | memoryview, position: int) -> Frame | None:
    """Return the frame at a position with a copy of its payload, or None if it is incomplete.

    Raises:
        UnexpectedFrameError: The frame does not end with the end octet.
    """
    payload_start = position + _FRAME_HEADER.size
    if payload_start > len(octets):
        return None
    kind, channel, size = _FRAME_HEADER.unpack_from(octets, position)
    end = payload_start + size
    if end >= len(octets):
        return None
    if octets[end] != FRAME_END:
        raise UnexpectedFrameError(f"octet {octets[end]:#x} at a frame's end", "0xce")
    return Frame(kind, channel, bytes(octets[payload_start:end]))


def parse_frames(octets: bytes | bytearray | memoryview) -> Iterator[Frame]:
    """Return the complete frames at the start of a buffer.

    Raises:
        UnexpectedFrameError: A frame does not end with the end octet.
    """
    position = 0
    while (parsed := try_parse_frame(octets, position)) is not None:
        yield parsed
        position += parsed.wire_bytes


def take_frames(unread: bytearray) -> list[Frame]:
    """Remove the complete frames from the start of a buffer and return them.

    Raises:
        UnexpectedFrameError: A frame does not end with the end octet.
    """
    frames = list(parse_frames(unread))
    del unread[: sum(each.wire_bytes for each in frames)]
    return frames
