"""Encodes deliveries of large messages, so that all consumers share one body.

`encode_deliveries` copies each body into the octets for one client. That is right for small
messages, because one write carries many of them. For twenty consumers that do not read, copies of a
large body would fill the memory. So this module creates only the heads of the frames for each
delivery, and the pieces of the body are views of the one message.
"""

from __future__ import annotations

from struct import pack, pack_into
from typing import Final

from amqp_server.protocol.framing import encode_deliveries
from appendlog.layout.message import message_borders

LARGE_MESSAGE_BYTES: Final = 128 * 1024
"""Bytes from which on a message is delivered this way."""
_FRAME_END: Final = b"\xce"
_BODY_FRAME: Final = 3


def encode_large_delivery(
    message: bytes, channel: int, consumer_tag: bytes, tag: int, redelivered: bool, frame_max: int
) -> list[bytes | memoryview]:
    """Return the octets of one `basic.deliver` with its content, in pieces.

    Args:
        message: Message as stored in the ring (docs/log-format.md); the pieces keep it alive.
        channel: Channel number, 1 to 65535.
        consumer_tag: Octets of the consumer tag, at most 255.
        tag: Delivery tag.
        redelivered: Whether the redelivered flag is set.
        frame_max: Largest frame in octets, framing included.

    Raises:
        ValueError: The lengths in the message are inconsistent.
    """
    _, properties_at, body_at = message_borders(message)
    head = bytearray(
        encode_deliveries([message[:body_at]], channel, consumer_tag, tag, redelivered, frame_max)
    )
    # The content header ends with the length of the body, the properties and the frame's end.
    body_bytes_at = len(head) - len(_FRAME_END) - (body_at - properties_at) - 8
    pack_into(">Q", head, body_bytes_at, len(message) - body_at)
    body, piece_bytes_max = memoryview(message), frame_max - 8
    pieces: list[bytes | memoryview] = []
    for at in range(body_at, len(message), piece_bytes_max):
        piece = body[at : at + piece_bytes_max]
        head += pack(">BHI", _BODY_FRAME, channel, len(piece))
        pieces += (bytes(head), piece)
        head = bytearray(_FRAME_END)
    pieces.append(bytes(head))
    return pieces
