"""Search for records that are not PERSISTENT; skips segments and chunks without such records."""

from collections.abc import Iterator, Sequence

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.format import CHUNK_HEADER_BYTES, OFFSET_MAX
from appendlog.layout.message import PERSISTENT
from appendlog.segments.chunk_walk import walk
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment


def transient_ranges(
    segments: Sequence[Segment],
    start: int,
    end: int,
    filesystem: FileSystem,
    descriptors: Descriptors,
    salt: int,
) -> list[tuple[int, int]]:
    """Return the transient offsets in `[start, end)` as ranges, in order, joined.

    Checks the CRC of each chunk: one damaged header would hide all later chunks.

    Args:
        segments: Segments of one log.
        start: First offset, inclusive.
        end: End offset, exclusive.
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        salt: Salt of the log, which its chunks carry.

    Raises:
        OSError: A file cannot be read.
    """
    joined: list[tuple[int, int]] = []
    for segment in segments:
        summary = segment.summary
        if not summary.transient_count or summary.end_offset <= start:
            continue
        span = summary.end_offset - summary.first_offset
        if summary.transient_count == summary.record_count == span:
            _join(joined, max(start, summary.first_offset), min(end, summary.end_offset))
            continue
        with descriptors.borrow(filesystem, segment.path) as descriptor:
            scan = SegmentScan(filesystem, descriptor, segment.data_bytes, salt)
            for first, last in _scanned(scan, segment, salt):
                _join(joined, max(start, first), min(end, last))
    return joined


def _scanned(scan: SegmentScan, segment: Segment, salt: int) -> Iterator[tuple[int, int]]:
    position: int | None = segment.header_bytes
    minimum = segment.base_offset
    while position is not None and position < segment.data_bytes:
        chunk = scan.chunk_at(position, minimum)
        if chunk is None:
            position = scan.find_chunk(position, minimum)
            continue
        minimum = chunk.end_offset
        if chunk.transient_count == chunk.record_count and not chunk.is_control:
            yield chunk.base_offset, chunk.end_offset
        elif chunk.transient_count:
            yield from _mixed(scan, position, chunk, salt)
        position += chunk.chunk_bytes


def _mixed(
    scan: SegmentScan, position: int, chunk: ChunkHeader, salt: int
) -> Iterator[tuple[int, int]]:
    data = scan.read(position, max(chunk.chunk_bytes, CHUNK_HEADER_BYTES))
    limit = OFFSET_MAX
    for records in walk(data, 0, len(data), salt, 0, limit, limit, limit).parts:
        for offset, position in zip(records.offsets, records.positions, strict=True):
            if not records.buffer[position] & PERSISTENT:
                yield offset, offset + 1


def _join(joined: list[tuple[int, int]], start: int, end: int) -> None:
    if start >= end:
        return
    if joined and joined[-1][1] >= start:
        joined[-1] = (joined[-1][0], max(joined[-1][1], end))
    else:
        joined.append((start, end))
