"""First bytes of a segment file: its log, and its base offset.

Source: docs/log-format.md, section 2.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from appendlog.errors import UnsupportedFormatError
from appendlog.identity import LogIdentity
from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CHUNK_PREFIX_BYTES,
    FORMAT_VERSION,
    SEGMENT_HEADER,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
)

SEGMENT_HEADER_BYTES_MAX = SEGMENT_HEADER_BYTES + 2 * 1024


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Content of a segment's header.

    Attributes:
        identity: Queue and incarnation.
        base_offset: Lowest offset that the segment may hold.
        created_ns: Time when the file was made, ns since 1970 UTC.
        previous_timestamp_ns: Last append time before this segment; 0 at the start of the log.
        generation: Number of compactions of the segment.
    """

    identity: LogIdentity
    base_offset: int
    created_ns: int
    previous_timestamp_ns: int = 0
    generation: int = 0


def segment_header_bytes(identity: LogIdentity) -> int:
    """Return the size of the header that every segment of a log has."""
    return SEGMENT_HEADER_BYTES + len(_utf8(identity.vhost)) + len(_utf8(identity.queue))


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Return the header's bytes."""
    vhost, queue = _utf8(header.identity.vhost), _utf8(header.identity.queue)
    length = SEGMENT_HEADER_BYTES - CHUNK_PREFIX_BYTES + len(vhost) + len(queue)

    def pack(crc: int) -> bytes:
        fixed = SEGMENT_HEADER.pack(
            SEGMENT_MAGIC,
            crc,
            length,
            FORMAT_VERSION,
            0,
            0,
            header.identity.incarnation.bytes,
            header.base_offset,
            header.created_ns,
            header.previous_timestamp_ns,
            header.generation,
            len(vhost),
            len(queue),
        )
        return b"".join((fixed, vhost, queue))

    return pack(crc32c(pack(0)[CHUNK_CRC_START:]))


def decode_segment_header(data: bytes, path: Path) -> SegmentHeader | None:
    """Return the header at the start of `data`, or None if it is not valid.

    Args:
        data: First bytes of the file; may be longer than the header.
        path: Path of the file, for the error.

    Raises:
        UnsupportedFormatError: The header is whole, but of another format version.
    """
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    fields = SEGMENT_HEADER.unpack_from(data)
    magic, crc, length, version = fields[:4]
    end = CHUNK_PREFIX_BYTES + length
    if magic != SEGMENT_MAGIC or not SEGMENT_HEADER_BYTES <= end <= len(data):
        return None
    if crc32c(data[CHUNK_CRC_START:end]) != crc:
        return None
    if version > FORMAT_VERSION:
        raise UnsupportedFormatError(path, version, FORMAT_VERSION)
    incarnation, base_offset, created_ns, previous_ns, generation, vhost_bytes, _ = fields[6:]
    names = data[SEGMENT_HEADER_BYTES:end]
    identity = LogIdentity(
        names[:vhost_bytes].decode("utf-8", "surrogateescape"),
        names[vhost_bytes:].decode("utf-8", "surrogateescape"),
        UUID(bytes=incarnation),
    )
    return SegmentHeader(identity, base_offset, created_ns, previous_ns, generation)


def _utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
