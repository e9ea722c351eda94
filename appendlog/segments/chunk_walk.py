"""Walk over the chunks of a buffer, compressed or not."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.compression import expand_chunk
from appendlog.layout.format import CHUNK_HEADER_BYTES, RECORD_BYTES_MIN, U32_MAX
from appendlog.layout.records import (
    WALK_COMPRESSED,
    WALK_END,
    WALK_FAULT,
    ReadableBuffer,
    walk_chunks,
)
from appendlog.segments.read_result import Records

_UNLIMITED_BYTES = 1 << 62


@dataclass(slots=True)
class ChunkWalk:
    """Progress of a walk, and the records that it has found.

    Attributes:
        salt: Salt of the log, which its chunks carry.
        until_offset: End offset, exclusive.
        max_records: Number of records that may still be added.
        max_bytes: Message bytes that may still be added; one record always fits.
        position: Position in the buffer where the next walk begins; see `walk_chunks`.
        next_offset: Lowest offset that the walk has not looked at.
        status: Why the walk ended; see `walk_chunks`. Never WALK_COMPRESSED.
        parts: Records found: one part for neighbouring chunks that are not compressed, and one for
            each compressed chunk, in a buffer of its own.
        record_count: Number of records in all parts.
        message_bytes: Size of the messages in all parts.
    """

    salt: int
    until_offset: int
    max_records: int
    max_bytes: int
    position: int
    next_offset: int
    status: int = WALK_END
    parts: list[Records] = field(default_factory=list)
    record_count: int = 0
    message_bytes: int = 0


def walk(
    data: ReadableBuffer,
    start: int,
    end: int,
    salt: int,
    from_offset: int,
    until_offset: int,
    max_records: int,
    max_bytes: int,
    *,
    whole_chunks: bool = False,
) -> ChunkWalk:
    """Walk over the chunks of `data[start:end]` as `walk_chunks` does; decompress packed chunks.

    If the walk reaches a limit inside a packed chunk, the position is the start of that chunk, and
    the next walk decompresses it again.

    Args:
        data: Buffer with the chunks.
        start: Position of the first chunk.
        end: Position after the last chunk.
        salt: Salt of the log, which its chunks carry.
        from_offset: Offset below which records are skipped.
        until_offset: End offset, exclusive.
        max_records: Limit of records, >= 1.
        max_bytes: Limit of message bytes, >= 1.
        whole_chunks: Whether `max_bytes` is checked only between packed chunks. Then the walk cuts
            no packed chunk, and need not decompress one again.
    """
    done = ChunkWalk(salt, until_offset, max_records, max_bytes, start, from_offset)
    while True:
        done.status, done.position = _walk(data, done.position, end, done, whole_chunks)
        if done.status != WALK_COMPRESSED:
            return done
        header = decode_chunk_header(
            bytes(data[done.position : done.position + CHUNK_HEADER_BYTES])
        )
        stop = done.position + header.chunk_bytes
        chunk = expand_chunk(bytes(data[done.position : stop]))
        if chunk is None:
            done.status = WALK_FAULT
            return done
        # Room for one record too many: the check of the count then notices a wrong header.
        done.status, walked = _walk(
            chunk, 0, len(chunk), done, whole_chunks, header.record_count + 1
        )
        if walked < len(chunk):
            return done
        done.position = stop
        if done.max_records <= 0 or done.max_bytes <= 0 or done.next_offset >= until_offset:
            done.status = WALK_END
            return done


def _walk(
    data: ReadableBuffer,
    start: int,
    end: int,
    done: ChunkWalk,
    whole_chunks: bool,
    places_max: int = U32_MAX,
) -> tuple[int, int]:
    """Walk to the next packed chunk or the end; return the status and the position."""
    places = min(done.max_records, (end - start) // RECORD_BYTES_MIN + 1, places_max)
    offsets = array("q", [0]) * places
    timestamps_ns = array("q", [0]) * places
    positions = array("I", [0]) * places
    lengths = array("I", [0]) * places
    status, stop, done.next_offset, count, message_bytes = walk_chunks(
        data,
        start,
        end,
        done.salt,
        done.next_offset,
        done.until_offset,
        places,
        _UNLIMITED_BYTES if whole_chunks else done.max_bytes,
        offsets,
        timestamps_ns,
        positions,
        lengths,
    )
    if count:
        for found in (offsets, timestamps_ns, positions, lengths):
            del found[count:]
        has_gaps = offsets[-1] - offsets[0] + 1 != count
        found_offsets = offsets if has_gaps else range(offsets[0], offsets[-1] + 1)
        done.parts.append(Records(data, found_offsets, positions, lengths, timestamps_ns))
        done.record_count += count
        done.message_bytes += message_bytes
        done.max_records -= count
        done.max_bytes -= message_bytes
    return status, stop
