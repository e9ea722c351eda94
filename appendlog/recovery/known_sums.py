"""Skipping the scan below the durable end, with the help of the sums in the `end` file.

Like the sums of a footer, they are trusted unless something contradicts them. The segment must be
as long as they say. The chunks of its last `VERIFIED_BYTES` must be whole. They must end exactly at
that position and offset. Of large chunks before them only the headers are read. Otherwise the
segment is scanned from its start. Reads and `verify` find damage further below, as in a sealed
segment.
"""

from array import array
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import CHUNK_HEADER_BYTES, GAP_MARKER_BYTES
from appendlog.layout.records import SUM_BASE_OFFSET, SUM_FIRST_TIMESTAMP, SUMS
from appendlog.layout.summary import SegmentSummary
from appendlog.segments.durable_end import DurableEnd
from appendlog.segments.index import (
    INDEX_GROUP_ENTRIES,
    READ_BYTES_MAX,
    ActiveIndex,
    IndexEntry,
    IndexTable,
    map_index,
)
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment

VERIFIED_BYTES: Final = 64 << 10
"""Bytes before the durable end that each start verifies: a faulty disk loses the last writes."""
LARGE_BYTES: Final = 4 << 10
"""Size of chunks from which on the headers of those before `VERIFIED_BYTES` are enough."""
_GAP_CHUNK_BYTES: Final = CHUNK_HEADER_BYTES + GAP_MARKER_BYTES


def index_at_durable_end(
    filesystem: FileSystem,
    segment: Segment,
    scan: SegmentScan,
    size: int,
    durable: DurableEnd,
    index: ActiveIndex,
    salt: int,
) -> ActiveIndex | None:
    """Return a segment's index up to the durable end, if the sums up to there can be trusted.

    Args:
        filesystem: File operations.
        segment: Segment of which only the header is known to be valid.
        scan: Scan of the segment.
        size: Size of the segment file.
        durable: Durable end, in this segment.
        index: Empty index; must not be used further if the result is None.
        salt: Salt of the log, which its chunks carry.

    Raises:
        OSError: The segment cannot be read.
    """
    sums = durable.summary
    if sums is None or durable.position > size:
        return None
    table = map_index(filesystem, segment.index_path, salt, segment.base_offset, READ_BYTES_MAX)
    first = IndexEntry(segment.base_offset, segment.header_bytes, segment.summary.last_timestamp_ns)
    return resumed_index(scan, first, table, 0, (durable.position, sums.end_offset), index)


def resumed_index(
    scan: SegmentScan,
    first: IndexEntry,
    table: IndexTable | None,
    passed_over: int,
    end: tuple[int, int],
    index: ActiveIndex,
) -> ActiveIndex | None:
    """Return the index of a segment that goes on at its end; None if that may be damaged.

    Args:
        scan: Scan of the segment.
        first: Place of its first chunk.
        table: Entries of its index file; None if there is none.
        passed_over: Number of entries in the file that are before those of the table.
        end: Position and offset where its chunks end.
        index: Empty index; must not be used further if the result is None.

    Raises:
        OSError: The segment cannot be read.
    """
    position, _ = end
    known = first
    if table is not None:
        stored_count = table.count_before(position)
        if stored_count:
            index = index.resumed(passed_over + stored_count, table[stored_count - 1])
        near_count = table.count_before(position - VERIFIED_BYTES)
        if near_count:
            known = table[near_count - 1]
        elif passed_over:
            return None
    if _checked_end(scan, known, position, index) != end:
        return None
    # With so many entries there was a file, and somebody has removed it.
    return None if table is None and len(index) >= 2 * INDEX_GROUP_ENTRIES else index


def _checked_end(
    scan: SegmentScan, known: IndexEntry, end: int, index: ActiveIndex
) -> tuple[int, int] | None:
    """Return the position and offset where the chunks end, and index them; None at damage."""
    minimum, position, max_timestamp_ns = known
    sums = SegmentSummary(minimum, minimum, max_timestamp_ns)
    while position < end:
        if position < end - VERIFIED_BYTES:
            chunk = scan.header_at(position, sums.end_offset)
            if chunk is None:
                return None
            after = position + chunk.chunk_bytes
            if chunk.chunk_bytes >= LARGE_BYTES and after <= end - VERIFIED_BYTES:
                if chunk.is_control:
                    return None
                index.add(chunk.base_offset, position, sums.time_before(chunk.first_timestamp_ns))
                sums.add(chunk)
                position = after
                continue
        # The data chunks up to the next one that gets an entry, at once.
        begin_before = index.due_position
        if begin_before <= position:
            begin_before = position + index.interval_bytes
        stretch = array("q", [0]) * SUMS
        stop = scan.sum_chunks(position, min(begin_before, end), sums.end_offset, stretch)
        if stop > position:
            before_ns = sums.time_before(stretch[SUM_FIRST_TIMESTAMP])
            index.add(stretch[SUM_BASE_OFFSET], position, before_ns)
            sums.add_sums(stretch)
            position = stop
            continue
        chunk = scan.chunk_at(position, sums.end_offset)
        if chunk is None or (chunk.is_control and chunk.chunk_bytes != _GAP_CHUNK_BYTES):
            # Damage; or a footer, after which nothing may be appended.
            return None
        if not chunk.is_control:
            index.add(chunk.base_offset, position, sums.time_before(chunk.first_timestamp_ns))
        sums.add(chunk)
        position += chunk.chunk_bytes
    return position, sums.end_offset
