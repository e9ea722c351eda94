"""The chunk of one large message, in parts, so that a write needs no copy of the message.

`encode_chunk` copies its messages into one object, with a CRC over all of it. That is right for
small messages. A large one, which twenty queues write at the same time, would be in memory
twenty times, and its copy and CRC would hold the thread that encodes. This chunk keeps a view of
the message; its CRC is computed when it is written, by another thread if it is very large.

The octets are those of `encode_chunk`: docs/log-format.md, sections 3 to 5.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CHUNK_HEADER,
    CHUNK_HEADER_BYTES,
    CHUNK_MAGIC,
    CRC_FRONT,
)
from appendlog.layout.message import message_borders
from appendlog.layout.records import encode_chunk

LARGE_MESSAGE_BYTES: Final = 256 * 1024
"""Bytes from which on a message is written this way; a smaller one is copied sooner."""

_RECORD_BYTES: Final = Struct("<I")


class LargeChunk:
    """A chunk with one message, whose body is a view of the message.

    Args:
        message: Message; the chunk keeps it alive and does not copy its body.
        offset: Offset of the message.
        timestamp_ns: Append time, ns since 1970 UTC.
        salt: `LogIdentity.salt` of the log.
        transaction_id: 16 bytes, or empty.

    Attributes:
        front: Octets before the body; the CRC in their header is 0, because only `parts` computes
            it.

    Raises:
        ValueError: The lengths in the message do not add up, or another argument is invalid.
    """

    __slots__ = ("_body", "front")

    def __init__(
        self, message: bytes, offset: int, timestamp_ns: int, salt: int, transaction_id: bytes = b""
    ) -> None:
        _, _, body_at = message_borders(message)
        self._body = memoryview(message)[body_at:]
        body_bytes = len(self._body)
        without_body = encode_chunk(
            [message[:body_at]], offset, None, timestamp_ns, None, salt, transaction_id
        )
        header = decode_chunk_header(without_body)
        header = header._replace(crc=0, length=header.length + body_bytes, body_bytes=body_bytes)
        front = bytearray(without_body)
        record_at = CHUNK_HEADER_BYTES + len(transaction_id)
        (record_bytes,) = _RECORD_BYTES.unpack_from(front, record_at)
        _RECORD_BYTES.pack_into(front, record_at, record_bytes + body_bytes)
        CHUNK_HEADER.pack_into(front, 0, *header)
        self.front: Final = bytes(front)

    def __len__(self) -> int:
        """Return the size of the whole chunk, in bytes."""
        return len(self.front) + len(self._body)

    def parts(self) -> tuple[bytes, memoryview]:
        """Return the octets in two parts, with the CRC. O(size): not for the event loop."""
        covered = self.front[CHUNK_CRC_START:]
        # Over large parts the CRC releases the GIL.
        crc = crc32c(self._body, crc32c(covered))
        return CRC_FRONT.pack(CHUNK_MAGIC, crc) + covered, self._body


Chunk = bytes | LargeChunk
"""A chunk that can be appended to a log."""


def joined_chunk(chunk: Chunk) -> bytes:
    """Return a chunk as one object. O(size) for a large one: not for the event loop."""
    return b"".join(chunk.parts()) if isinstance(chunk, LargeChunk) else chunk
