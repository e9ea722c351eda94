"""Compression of a chunk's records with zstd; readers get the same records.

The thread that writes a chunk compresses it as a whole. So encoding does not depend on compression,
and it costs the event loop nothing. Only length, flags and CRC of the header change: the other
fields can be read without decompression.

Source: docs/log-format.md, section 3; zstd: RFC 8878.
"""

from collections.abc import Sequence
from typing import Final

from appendlog.errors import MissingPackageError
from appendlog.layout.chunk import ChunkHeader, decode_chunk_header
from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CHUNK_HEADER,
    CHUNK_HEADER_BYTES,
    CHUNK_PREFIX_BYTES,
    COMPRESSED_HEADER,
    COMPRESSED_HEADER_BYTES,
    FLAG_COMPRESSED,
    FLAG_TRANSACTION,
    FORMAT_VERSION,
    PACKED_RECORD_BYTES_MAX,
    PACKED_RECORDS_BYTES_MAX,
    RECORD_BYTES_MIN,
    TRANSACTION_ID_BYTES,
)

try:
    import zstandard
except ImportError:
    # Uncompressed logs can be read without it; `_require_zstandard` refuses everything else.
    zstandard = None  # type: ignore[assignment]

COMPRESSION_LEVEL: Final = 1
"""Level faster than the disk, and within a tenth of the default level on typical messages."""


class ChunkCompressor:
    """Compressor of chunks, for one thread at a time. It takes about a megabyte: do not keep it.

    Args:
        bytes_min: Chunks with fewer bytes of records stay unchanged.

    Raises:
        MissingPackageError: The package zstandard is not installed.
    """

    def __init__(self, bytes_min: int) -> None:
        self._bytes_min = bytes_min
        _require_zstandard()
        self._compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)

    def compress(self, chunk: bytes) -> bytes:
        """Return the compressed chunk, or the same chunk if compression does not make it smaller.

        Args:
            chunk: Whole data chunk, encoded by `encode_chunk`; not compressed yet.
        """
        header = decode_chunk_header(chunk)
        start = _records_start(header)
        records_bytes = len(chunk) - start
        if header.is_control or header.is_compressed or records_bytes < self._bytes_min:
            return chunk
        if not _may_expand_to(records_bytes, header):
            return chunk
        packed = self._compressor.compress(memoryview(chunk)[start:])
        if len(packed) + COMPRESSED_HEADER_BYTES >= records_bytes:
            return chunk
        payload = (chunk[CHUNK_HEADER_BYTES:start], COMPRESSED_HEADER.pack(records_bytes), packed)
        return _with_payload(header, header.flags | FLAG_COMPRESSED, payload)


def expand_chunk(chunk: bytes) -> bytes | None:
    """Return a chunk decompressed; one that is not compressed is returned unchanged.

    Args:
        chunk: Whole chunk whose CRC has been checked.

    Returns:
        None if its records cannot be decompressed despite a valid CRC: they were damaged before the
        CRC was made. Also None for a chunk that expands to more than any chunk ever has (32 KiB can
        hold gigabytes of zeros). No memory is allocated for it.

    Raises:
        MissingPackageError: The chunk is compressed, and the package zstandard is not installed.
    """
    header = decode_chunk_header(chunk)
    if not header.is_compressed:
        return chunk
    start = _records_start(header)
    packed_start = start + COMPRESSED_HEADER_BYTES
    if packed_start > len(chunk):
        return None
    (records_bytes,) = COMPRESSED_HEADER.unpack_from(chunk, start)
    if not _may_expand_to(records_bytes, header):
        return None
    records = _expand_frame(memoryview(chunk)[packed_start:], records_bytes)
    if records is None:
        return None
    return _with_payload(
        header, header.flags & ~FLAG_COMPRESSED, (chunk[CHUNK_HEADER_BYTES:start], records)
    )


def _require_zstandard() -> None:
    if zstandard is None:
        raise MissingPackageError("zstandard", "packed logs")


def _expand_frame(frame: memoryview, expanded_bytes: int) -> bytes | None:
    """Return the content of a frame; None when it is damaged or has another size.

    Allocates no more than `expanded_bytes`, whatever size the frame names.
    """
    _require_zstandard()
    try:
        if zstandard.frame_content_size(frame) != expanded_bytes:
            return None
        octets = zstandard.ZstdDecompressor().decompress(frame, max_output_size=expanded_bytes)
    except zstandard.ZstdError:
        return None
    return octets if len(octets) == expanded_bytes else None


def _records_start(header: ChunkHeader) -> int:
    has_id = header.flags & FLAG_TRANSACTION
    return CHUNK_HEADER_BYTES + (TRANSACTION_ID_BYTES if has_id else 0)


def _may_expand_to(records_bytes: int, header: ChunkHeader) -> bool:
    """Return whether the records of a compressed chunk may have this size."""
    count = header.record_count
    bytes_max = PACKED_RECORDS_BYTES_MAX if count > 1 else PACKED_RECORD_BYTES_MAX
    # Readers allocate a place for each record that the header counts.
    return count * RECORD_BYTES_MIN <= records_bytes <= bytes_max


def _with_payload(header: ChunkHeader, flags: int, payload: Sequence[bytes]) -> bytes:
    """Return a chunk with another payload, passed in parts: it may be large, and is copied once."""
    length = CHUNK_HEADER_BYTES - CHUNK_PREFIX_BYTES + sum(map(len, payload))
    fields = header._replace(length=length, version=FORMAT_VERSION, flags=flags)
    crc = crc32c(CHUNK_HEADER.pack(*fields)[CHUNK_CRC_START:])
    for part in payload:
        crc = crc32c(part, crc)
    return b"".join((CHUNK_HEADER.pack(*fields._replace(crc=crc)), *payload))
