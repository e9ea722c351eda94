"""Encodes large messages, so that all clients share one body.

The kernels copy each body into the octets for one client. That is right for small messages, because
one write carries many of them. For twenty consumers that do not read, copies of a large body would
fill the memory, and a copy of 127 MB holds the event loop for as long as it takes. So this module
creates only the heads of the frames for each client, and the pieces of the body are views of the
one message. They are made a part at a time, when the client has room for them: with frames of 4 KiB
such a message has 31,000.
"""

from __future__ import annotations

from itertools import groupby
from struct import pack, pack_into
from typing import Final

from amqp_server.protocol.framing import encode_content, encode_deliveries
from appendlog.layout.message import message_borders

LARGE_MESSAGE_BYTES: Final = 128 * 1024
"""Bytes from which on a message is sent this way."""
_FRAME_END: Final = b"\xce"
_BODY_FRAME: Final = 3
_FRAME_START_BYTES: Final = 7
_BODY_SIZE_AT: Final = 4
"""Position of the body's length in the payload of a content header."""


class LargeFrames:
    """The frames of a method, its content header and a large body, for one client.

    Args:
        head: Method and content header, encoded for a message without a body.
        body: View of the body; it keeps the message alive.
        channel: Channel of the frames.
        frame_max: Most octets of a frame, as negotiated.
    """

    __slots__ = ("_at", "_body", "_channel", "_front", "_piece_bytes_max", "_waiting_bytes")

    def __init__(
        self, head: bytes | bytearray, body: memoryview, channel: int, frame_max: int
    ) -> None:
        front = bytearray(head)
        method_bytes = int.from_bytes(front[3:_FRAME_START_BYTES], "big")
        header_at = _FRAME_START_BYTES + method_bytes + len(_FRAME_END)
        pack_into(">Q", front, header_at + _FRAME_START_BYTES + _BODY_SIZE_AT, len(body))
        # Octets before the next piece of the body.
        self._front: bytes | bytearray = front
        self._body = body
        self._at = 0
        self._channel = channel
        overhead_bytes = _FRAME_START_BYTES + len(_FRAME_END)
        self._piece_bytes_max = frame_max - overhead_bytes
        frame_count = -(-len(body) // self._piece_bytes_max)
        self._waiting_bytes = len(front) + len(body) + frame_count * overhead_bytes

    def __len__(self) -> int:
        """Return how many octets are not taken yet."""
        return self._waiting_bytes

    def take(self, bytes_max: int) -> list[bytes | memoryview]:
        """Return the next octets in pieces: a frame at least, and no frame behind `bytes_max`.

        Heads of frames are bytes, and what is between them views of the message.
        """
        pieces: list[bytes | memoryview] = []
        front = self._front
        end = min(self._at + max(bytes_max, 1), len(self._body))
        for at in range(self._at, end, self._piece_bytes_max):
            piece = self._body[at : at + self._piece_bytes_max]
            head = pack(">BHI", _BODY_FRAME, self._channel, len(piece))
            pieces += (bytes(front) + head, piece)
            front = _FRAME_END
            self._at = at + len(piece)
        self._front = front
        if self._at == len(self._body):
            pieces.append(bytes(front))
            self._waiting_bytes = 0
        else:
            self._waiting_bytes -= sum(map(len, pieces))
        return pieces


Octets = bytes | bytearray | LargeFrames
"""Octets of frames, made already or to be made a part at a time."""


class LargeMessage:
    """One large message whose body is a view: of the message as it is stored.

    Its properties may be others than those of the stored one.

    Args:
        front: The message without its body.
        body: Its body.
    """

    __slots__ = ("body", "front")

    def __init__(self, front: bytes, body: memoryview) -> None:
        self.front = front
        self.body = body

    def __len__(self) -> int:
        """Return the number of messages in this run of them: 1."""
        return 1

    def encode(
        self,
        channel: int,
        consumer_tag: bytes,
        first_tag: int,
        redelivered: bool,
        frame_max: int,
        first_offset: int = -1,
    ) -> Octets:
        """Return the octets of the delivery; see `amqp_server.protocol.framing`."""
        places = (channel, consumer_tag, first_tag, redelivered, frame_max, first_offset)
        head = encode_deliveries([self.front], *places)
        return LargeFrames(head, self.body, channel, frame_max)

    def encode_content(
        self, channel: int, before_route: bytes, after_route: bytes, frame_max: int
    ) -> Octets:
        """Return the octets of another method with content; see `encode_content` there."""
        head = encode_content(self.front, channel, before_route, after_route, frame_max)
        return LargeFrames(head, self.body, channel, frame_max)


def deliveries_of(
    messages: list[bytes],
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: bool,
    frame_max: int,
    first_offset: int = -1,
) -> Octets:
    """Return what `encode_deliveries` returns; as `LargeFrames` if it is one large message.

    Raises:
        ValueError: The lengths in a message are inconsistent.
    """
    places = (channel, consumer_tag, first_tag, redelivered, frame_max, first_offset)
    if len(messages) == 1 and len(messages[0]) >= LARGE_MESSAGE_BYTES:
        return LargeMessage(*_split(messages[0])).encode(*places)
    octets: bytes | bytearray = encode_deliveries(messages, *places)
    return octets


def content_of(
    message: bytes, channel: int, before_route: bytes, after_route: bytes, frame_max: int
) -> Octets:
    """Return what `encode_content` returns; as `LargeFrames` if the message is large.

    Raises:
        ValueError: The lengths in the message are inconsistent.
    """
    places = (channel, before_route, after_route, frame_max)
    if len(message) >= LARGE_MESSAGE_BYTES:
        return LargeMessage(*_split(message)).encode_content(*places)
    octets: bytes | bytearray = encode_content(message, *places)
    return octets


def apart(messages: list[bytes]) -> list[list[bytes]]:
    """Return the same messages in runs, in which each large message is alone."""
    if max(map(len, messages)) < LARGE_MESSAGE_BYTES:
        return [messages]
    runs: list[list[bytes]] = []
    for is_large, run in groupby(messages, lambda each: len(each) >= LARGE_MESSAGE_BYTES):
        if is_large:
            runs += [[each] for each in run]
        else:
            runs.append(list(run))
    return runs


def _split(message: bytes) -> tuple[bytes, memoryview]:
    _, _, body_at = message_borders(message)
    return message[:body_at], memoryview(message)[body_at:]
