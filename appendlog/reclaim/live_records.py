"""Removal of settled records from one chunk."""

from collections.abc import Sequence
from typing import Final

from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.compression import ChunkCompressor
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    FLAG_TRANSACTION,
    OFFSET_MAX,
    TRANSACTION_ID_BYTES,
)
from appendlog.layout.records import WALK_END, cut_messages, encode_chunk
from appendlog.reclaim.removed_ranges import Range
from appendlog.segments.chunk_walk import walk

PACKED_BYTES_MIN: Final = 64
"""Minimum size of the remaining records, in bytes, for a packed chunk to be packed again."""


def without_settled(chunk: bytes, salt: int, live: Sequence[Range], first: int) -> bytes | None:
    """Return a chunk with only the live records of another; None if there are none.

    Offsets, append times and the transaction stay unchanged; a packed chunk is packed again.

    Args:
        chunk: Whole data chunk whose CRC has been checked.
        salt: Salt of the log.
        live: Ranges of offsets, ascending and disjoint.
        first: Index of the first range that reaches into the chunk.

    Raises:
        ValueError: The records do not add up: they were damaged before the CRC was made.
    """
    limit = OFFSET_MAX
    found = walk(chunk, 0, len(chunk), salt, 0, limit, limit, limit)
    if found.status != WALK_END:
        raise ValueError("records do not add up")
    offsets, timestamps_ns, messages = [], [], []
    at = first
    for part in found.parts:
        # Make objects only for kept records: a packed chunk may hold millions in a few bytes.
        for index, offset in enumerate(part.offsets):
            while at < len(live) and live[at][1] <= offset:
                at += 1
            if at == len(live):
                break
            if live[at][0] <= offset:
                offsets.append(offset)
                timestamps_ns.append(part.timestamps_ns[index])
                messages += cut_messages(
                    part.buffer, part.positions, part.lengths, index, index + 1
                )
    if not offsets:
        return None
    base_offset, base_ns = offsets[0], timestamps_ns[0]
    rest = encode_chunk(
        messages,
        base_offset,
        [offset - base_offset for offset in offsets],
        base_ns,
        [timestamp_ns - base_ns for timestamp_ns in timestamps_ns],
        salt,
        _transaction_id(chunk),
    )
    if not decode_chunk_header(chunk).is_compressed:
        return rest
    return ChunkCompressor(PACKED_BYTES_MIN).compress(rest)


def _transaction_id(chunk: bytes) -> bytes:
    if not decode_chunk_header(chunk).flags & FLAG_TRANSACTION:
        return b""
    return chunk[CHUNK_HEADER_BYTES : CHUNK_HEADER_BYTES + TRANSACTION_ID_BYTES]
