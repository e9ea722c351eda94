"""Finding the first record that was appended at or after a time."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_reader import ReadRequest, SegmentReader

_BATCH_RECORDS: Final = 16_384
_BATCH_BYTES: Final = 64 << 10
_FOREVER_NS: Final = (1 << 63) - 1


def first_offset_at(
    segments: Sequence[Segment],
    timestamp_ns: int,
    end: int,
    indexes: SegmentIndexes,
    reader: SegmentReader,
) -> int:
    """Return the offset of the first record at or after a time; `end` if there is none.

    O(log n) in segments and in index entries, and one interval of the index to read.

    Args:
        segments: Of one log; the sums of those that are sealed are known.
        timestamp_ns: Nanoseconds since 1970 UTC.
        end: Log end offset, exclusive.
        indexes: Of the segments.
        reader: Of the segments; may raise at damage.

    Raises:
        OSError: A file cannot be read.
    """
    first = bisect_left(
        range(len(segments) - 1), timestamp_ns, key=lambda at: _last_timestamp_ns(segments[at])
    )
    for at in range(first, len(segments)):
        stop = segments[at + 1].base_offset if at + 1 < len(segments) else end
        found = _in_segment(segments[at], timestamp_ns, stop, indexes, reader)
        if found is not None:
            return found
    return end


def _in_segment(
    segment: Segment, timestamp_ns: int, stop: int, indexes: SegmentIndexes, reader: SegmentReader
) -> int | None:
    position = indexes.locate_time(segment, timestamp_ns)
    position, chunk_bytes = reader.skip_earlier(segment, position, timestamp_ns)
    offset = segment.base_offset
    while position < segment.data_bytes and offset < stop:
        result = ReadResult(next_offset=offset)
        request = ReadRequest(segment, position, stop, _BATCH_RECORDS, _BATCH_BYTES, result)
        if chunk_bytes:
            # What is looked for is mostly in the first one.
            request.needed_bytes, request.max_windows, chunk_bytes = chunk_bytes, 1, 0
        position = reader.read(request)
        for records in result.parts:
            at = bisect_left(records.timestamps_ns, timestamp_ns)
            if at < len(records):
                return records.offsets[at]
        offset = result.next_offset
    return None


def _last_timestamp_ns(segment: Segment) -> int:
    """Return an upper bound: a segment without a footer may hold any time."""
    return segment.summary.last_timestamp_ns if segment.is_sealed else _FOREVER_NS
