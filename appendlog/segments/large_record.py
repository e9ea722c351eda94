"""Reading a large message into a buffer of its own, without a copy out of a window.

A message is one `bytes` object in memory. One that a walk finds in a window must be copied to
become such an object, and a copy of a hundred megabytes holds the interpreter for as long as it
takes. Here the read itself makes the object: `pread` and the CRC over large parts release the GIL.

It is read by copy from sealed segments too. Its octets may wait in memory for a slow consumer; a
mapping could lose its pages during that time, and the event loop would wait for the disk.
"""

from array import array
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.layout.chunk import ChunkHeader, own_header
from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CHUNK_HEADER_BYTES,
    FLAG_TRANSACTION,
    RECORD_BYTES_MIN,
    RECORD_HEADER,
    RECORD_HEADER_BYTES,
    TRANSACTION_ID_BYTES,
)
from appendlog.segments.read_result import Records

FRONT_BYTES_MAX: Final = CHUNK_HEADER_BYTES + TRANSACTION_ID_BYTES + RECORD_HEADER_BYTES
"""Octets of a chunk before its first message, at most."""


class LargeRecord:
    """The only record of a chunk, of which so far only the beginning was read.

    Args:
        header: Header of the chunk.
        front: Octets of the chunk up to the message.
    """

    __slots__ = ("_front", "header", "message_bytes", "offset", "timestamp_ns")

    def __init__(self, header: ChunkHeader, front: bytes) -> None:
        record_bytes, offset_delta, timestamp_delta_ns = RECORD_HEADER.unpack_from(
            front, len(front) - RECORD_HEADER_BYTES
        )
        self.header = header
        self.offset = header.base_offset + offset_delta
        self.timestamp_ns = header.first_timestamp_ns + timestamp_delta_ns
        # The length of a record does not count itself.
        self.message_bytes = record_bytes + 4 - RECORD_HEADER_BYTES
        self._front = front

    @property
    def is_whole(self) -> bool:
        """Whether header and record agree that the record fills the chunk."""
        chunk_bytes: int = len(self._front) + self.message_bytes
        return (
            self.message_bytes >= RECORD_BYTES_MIN - RECORD_HEADER_BYTES
            and chunk_bytes == self.header.chunk_bytes
            and self.offset + 1 == self.header.end_offset
        )

    def read(self, filesystem: FileSystem, descriptor: int, position: int) -> Records | None:
        """Return the record, in a buffer that is its message; None if the chunk is damaged.

        Args:
            filesystem: File operations.
            descriptor: Descriptor of the segment.
            position: Position of the chunk in the segment.

        Raises:
            OSError: The file cannot be read.
        """
        message = filesystem.read_all(descriptor, self.message_bytes, position + len(self._front))
        crc = crc32c(message, crc32c(self._front[CHUNK_CRC_START:]))
        if len(message) != self.message_bytes or crc != self.header.crc:
            return None
        return Records(
            message,
            range(self.offset, self.offset + 1),
            array("I", [0]),
            array("I", [self.message_bytes]),
            array("q", [self.timestamp_ns]),
        )


def find_large_record(front: bytes, salt: int) -> LargeRecord | None:
    """Return the only record of a chunk; None if it has several.

    It examines the beginning only: the read finds damage.

    Args:
        front: The first `FRONT_BYTES_MAX` octets of the chunk.
        salt: Salt of the log.
    """
    if len(front) < FRONT_BYTES_MAX:
        return None
    header = own_header(front[:CHUNK_HEADER_BYTES], salt, 0)
    if header is None or header.is_control or header.is_compressed or header.record_count != 1:
        return None
    front_bytes = CHUNK_HEADER_BYTES + RECORD_HEADER_BYTES
    if header.flags & FLAG_TRANSACTION:
        front_bytes += TRANSACTION_ID_BYTES
    record = LargeRecord(header, front[:front_bytes])
    return record if record.is_whole else None
