"""Chunk headers, and the two control chunks: footer and gap marker.

Source: docs/log-format.md, sections 3 and 6.
"""

from typing import NamedTuple

from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_BYTES_MAX,
    CHUNK_CRC_START,
    CHUNK_HEADER,
    CHUNK_HEADER_BYTES,
    CHUNK_MAGIC,
    CHUNK_PREFIX_BYTES,
    CONTROL_GAP,
    FLAG_COMPRESSED,
    FLAGS_KNOWN,
    FORMAT_VERSION,
    GAP_MARKER,
    KIND_CONTROL,
    OFFSET_MAX,
)


class ChunkHeader(NamedTuple):
    """The 88 bytes before every chunk's records, field by field."""

    magic: int
    crc: int
    length: int
    version: int
    kind: int
    flags: int
    salt: int
    record_count: int
    base_offset: int
    last_offset_delta: int
    transient_count: int
    body_bytes: int
    first_timestamp_ns: int
    last_timestamp_ns: int
    min_expiry_ns: int
    max_expiry_ns: int
    priority_bitmap: int

    @property
    def chunk_bytes(self) -> int:
        """Return the size of the whole chunk."""
        return CHUNK_PREFIX_BYTES + self.length

    @property
    def is_control(self) -> bool:
        """Return whether the chunk carries no records."""
        return self.kind == KIND_CONTROL

    @property
    def is_compressed(self) -> bool:
        """Return whether the records are compressed."""
        return bool(self.flags & FLAG_COMPRESSED)

    @property
    def end_offset(self) -> int:
        """Return the offset after the chunk's last record."""
        if self.kind == KIND_CONTROL:
            return self.base_offset
        return self.base_offset + self.last_offset_delta + 1


def decode_chunk_header(data: bytes, position: int = 0) -> ChunkHeader:
    """Return the header at `position`; `data` must hold all of it. Checks nothing."""
    return tuple.__new__(ChunkHeader, CHUNK_HEADER.unpack_from(data, position))


def own_header(data: bytes, salt: int, minimum_offset: int) -> ChunkHeader | None:
    """Return the header at the start of `data` if it can be one of a log; None if it cannot.

    The caller checks the CRC.

    Args:
        data: Octets of the chunk; at least its header.
        salt: Salt of the log.
        minimum_offset: Lowest valid base offset.
    """
    header: ChunkHeader = tuple.__new__(ChunkHeader, CHUNK_HEADER.unpack_from(data))
    is_plausible = (
        header.magic == CHUNK_MAGIC
        and header.salt == salt
        and header.version <= FORMAT_VERSION
        and header.kind <= KIND_CONTROL
        and not header.flags & ~FLAGS_KNOWN[header.version]
        and CHUNK_HEADER_BYTES <= CHUNK_PREFIX_BYTES + header.length <= CHUNK_BYTES_MAX
        and minimum_offset <= header.base_offset <= OFFSET_MAX
    )
    return header if is_plausible else None


def encode_control(payload: bytes, base_offset: int, timestamp_ns: int, salt: int) -> bytes:
    """Return a control chunk, after which the log continues at `base_offset`."""

    def pack(crc: int) -> bytes:
        return CHUNK_HEADER.pack(
            CHUNK_MAGIC,
            crc,
            CHUNK_HEADER_BYTES - CHUNK_PREFIX_BYTES + len(payload),
            FORMAT_VERSION,
            KIND_CONTROL,
            0,
            salt,
            0,
            base_offset,
            0,
            0,
            0,
            timestamp_ns,
            timestamp_ns,
            0,
            0,
            0,
        )

    return pack(crc32c(payload, crc32c(pack(0)[CHUNK_CRC_START:]))) + payload


def encode_gap_marker(start: int, end: int, reason: int, timestamp_ns: int, salt: int) -> bytes:
    """Return the control chunk that declares `[start, end)` missing from the log.

    Args:
        start: Log end offset before the marker.
        end: Offset at which the log continues.
        reason: `GAP_SKIPPED` or `GAP_LOST`.
        timestamp_ns: Last append time of the log.
        salt: Salt of the log.
    """
    payload = GAP_MARKER.pack(CONTROL_GAP, 0, reason, start)
    return encode_control(payload, end, timestamp_ns, salt)
