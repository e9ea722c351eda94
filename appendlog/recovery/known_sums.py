"""Going on behind the durable end: what lies before it is known from the sums beside it.

Like a footer's, the sums are believed where nothing contradicts them. The segment has to be
as long as they say; the chunks of its last `VERIFIED_BYTES` have to be whole; and they have to
end at exactly that position and offset. Anything else, and the segment is scanned from its start.
Damage further below is met by reads and by `verify`, as in a sealed segment.
"""

from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import CHUNK_HEADER_BYTES, GAP_MARKER_BYTES
from appendlog.layout.summary import SegmentSummary
from appendlog.segments.durable_end import DurableEnd
from appendlog.segments.index import ActiveIndex, IndexEntry, map_index
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment

VERIFIED_BYTES: Final = 64 << 10
"""So much before the durable end is read at each start: a disk that lied loses its last writes."""
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
    """Return a segment's index up to the durable end, if its sums up to there can be believed.

    Args:
        filesystem: Reads the index file.
        segment: Its header is valid; more is not known.
        scan: Of the segment.
        size: Of its file.
        durable: Of this segment.
        index: Empty; not used any more when None is returned.
        salt: Of the log.

    Raises:
        OSError: The segment cannot be read.
    """
    sums = durable.summary
    if sums is None or durable.position > size:
        return None
    table = map_index(filesystem, segment.index_path, salt, segment.base_offset)
    if table is None and durable.position > VERIFIED_BYTES:
        return None
    known = IndexEntry(segment.base_offset, segment.header_bytes, segment.summary.last_timestamp_ns)
    if table is not None:
        stored_count = table.count_before(durable.position)
        if stored_count:
            index = index.resumed(stored_count, table[stored_count - 1])
        near_count = min(table.count_before(durable.position - VERIFIED_BYTES), stored_count)
        if near_count:
            known = table[near_count - 1]
    end = _checked_end(scan, known, durable.position, index)
    return index if end == (durable.position, sums.end_offset) else None


def _checked_end(
    scan: SegmentScan, known: IndexEntry, end: int, index: ActiveIndex
) -> tuple[int, int] | None:
    """Return the position and offset at which chunks end, adding them to the index; or None."""
    minimum, position, max_timestamp_ns = known
    sums = SegmentSummary(minimum, minimum, max_timestamp_ns)
    while position < end:
        chunk = scan.chunk_at(position, sums.end_offset)
        if chunk is None or (chunk.is_control and chunk.chunk_bytes != _GAP_CHUNK_BYTES):
            # Damage; or a footer, behind which nothing may be appended.
            return None
        if not chunk.is_control:
            index.add(chunk.base_offset, position, sums.time_before(chunk.first_timestamp_ns))
        sums.add(chunk)
        position += chunk.chunk_bytes
    return position, sums.end_offset
