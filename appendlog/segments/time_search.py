"""Search by time: which records of a log were appended at or after a moment, and which before.

Append times ascend only within a segment: where a clock was set back, a new segment begins and
times step back. So the search compares each segment's own first and last time. Footers state
whether times step back anywhere before them; if they do not, the search is a bisection.

`first_offset_at` is the lowest offset at or after the moment, whatever follows it.
`end_offset_before` is the end of the records from before the moment, whatever precedes it. In a
log whose times ascend, both are the same offset.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_reader import ReadRequest, SegmentReader

_BATCH_RECORDS: Final = 16_384
_BATCH_BYTES: Final = 64 << 10
_FOREVER_NS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimeSearch:
    """Search by time in one log.

    Both searches are O(log n) in segments and in index entries, and read one interval of the index.
    If append times step back between segments, they also look at each footer.

    Attributes:
        segments: Segments of one log; the sums of the sealed ones are known.
        end: Log end offset, exclusive.
        indexes: Indexes of the segments.
        reader: Reader of the segments; may raise at damage.
    """

    segments: Sequence[Segment]
    end: int
    indexes: SegmentIndexes
    reader: SegmentReader

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the lowest offset appended at or after a time; `end` if there is none.

        Args:
            timestamp_ns: Nanoseconds since 1970 UTC.

        Raises:
            OSError: A file cannot be read.
        """
        segments = self.segments
        first = 0
        if self._ascends:
            sealed = range(len(segments) - 1)
            first = bisect_left(sealed, timestamp_ns, key=self._last_timestamp_ns)
        for at in range(first, len(segments)):
            # Appends go to the last segment: its known sums may be out of date.
            if at + 1 < len(segments) and self._last_timestamp_ns(at) < timestamp_ns:
                continue
            found = self._in_segment(at, timestamp_ns)
            if found is not None:
                return found
        return self.end

    def end_offset_before(self, timestamp_ns: int) -> int:
        """Return the offset from which on nothing was appended before a time.

        The start of the log if all records are later; `end` if the last record is earlier.

        Args:
            timestamp_ns: Nanoseconds since 1970 UTC.

        Raises:
            OSError: A file cannot be read.
        """
        segments = self.segments
        last = len(segments) - 1
        found = self._end_in_segment(last, timestamp_ns)
        if found is not None or not last:
            return segments[0].base_offset if found is None else found
        if self._ascends:
            last = bisect_left(range(last), timestamp_ns, key=self._first_timestamp_ns)
        for at in reversed(range(last)):
            if self._first_timestamp_ns(at) < timestamp_ns:
                found = self._end_in_segment(at, timestamp_ns)
                if found is not None:
                    return found
        return segments[0].base_offset

    @property
    def _ascends(self) -> bool:
        """Whether append times ascend through all segments but the last one."""
        if len(self.segments) < 3:
            return False  # too few segments for a bisection
        before_last = self.segments[-2]
        return before_last.is_sealed and not before_last.summary.steps_back

    def _last_timestamp_ns(self, at: int) -> int:
        """Return an upper bound: a segment without a footer may hold any time."""
        segment = self.segments[at]
        return segment.summary.last_timestamp_ns if segment.is_sealed else _FOREVER_NS

    def _first_timestamp_ns(self, at: int) -> int:
        """Return a lower bound: a segment without a footer may hold any time."""
        segment = self.segments[at]
        return segment.summary.first_timestamp_ns if segment.is_sealed else 0

    def _stop(self, at: int) -> int:
        """Return the offset after a segment."""
        segments = self.segments
        return segments[at + 1].base_offset if at + 1 < len(segments) else self.end

    def _end_in_segment(self, at: int, timestamp_ns: int) -> int | None:
        """Return the end of a segment's records from before a time; None if it has none."""
        first = self._in_segment(at, 0)
        found = self._in_segment(at, timestamp_ns)
        if first is None or found == first:
            return None
        return self._stop(at) if found is None else found

    def _in_segment(self, at: int, timestamp_ns: int) -> int | None:
        """Return the first offset of a segment at or after a time; None if it has none."""
        segment = self.segments[at]
        stop = self._stop(at)
        position = self.indexes.locate_time(segment, timestamp_ns)
        position, chunk_bytes = self.reader.skip_earlier(segment, position, timestamp_ns)
        offset = segment.base_offset
        while position < segment.data_bytes and offset < stop:
            result = ReadResult(next_offset=offset)
            request = ReadRequest(segment, position, stop, _BATCH_RECORDS, _BATCH_BYTES, result)
            if chunk_bytes:
                # The record is usually in the first chunk.
                request.needed_bytes = chunk_bytes
                request.max_windows = 1
                chunk_bytes = 0
            position = self.reader.read(request)
            for records in result.parts:
                place = bisect_left(records.timestamps_ns, timestamp_ns)
                if place < len(records):
                    return records.offsets[place]
            offset = result.next_offset
        return None
