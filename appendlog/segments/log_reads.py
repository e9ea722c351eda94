"""Reading one log by offset, across its segments, while another thread writes it."""

import threading
from pathlib import Path
from typing import Final

from appendlog.errors import LogFailedError
from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_list import SegmentList, find_segment
from appendlog.segments.segment_reader import ReadRequest, SegmentReader
from appendlog.segments.time_search import TimeSearch

_CURSORS_MAX: Final = 64
_DAMAGED_MAX: Final = 1000
_WINDOWS_MAX: Final = 1 << 62


class DamagedPlaces:
    """The damaged places of one log that reads have found. Thread-safe.

    An object of its own: `LogReads` and its reader would refer to each other, and only the garbage
    collector would free them.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[tuple[Path, int], str] = {}

    @property
    def lines(self) -> list[str]:
        """A line for each place."""
        return list(self._lines.values())

    def note(self, path: Path, position: int, offset: int, reason: str) -> None:
        """Record a damaged place that a read skips."""
        if len(self._lines) < _DAMAGED_MAX:
            self._lines[path, position] = f"{path.name}:{position} offset {offset}: {reason}"


class LogReads:
    """The reading part of one log. Thread-safe.

    Args:
        segments: Segments of the log; other threads change the list.

    Attributes:
        reader: Reads one segment. The owner sets it.
        damaged_places: Gets the damage that the reader skips.
        indexes: Indexes of the segments. The owner sets it.
    """

    def __init__(self, segments: SegmentList) -> None:
        self.reader: SegmentReader
        self.indexes: SegmentIndexes
        self._segments = segments
        self._cursors: dict[int, tuple[Segment, int]] = {}
        self._cursors_lock = threading.Lock()
        self.damaged_places = DamagedPlaces()

    @property
    def damaged(self) -> list[str]:
        """A line for each damaged place that reads have found."""
        return self.damaged_places.lines

    def read(self, offset: int, end: int, max_bytes: int, max_records: int) -> ReadResult:
        """Return records from the first one at or after `offset`; see `Log.read`.

        Args:
            offset: First offset; below the start of the log means its start.
            end: Log end offset, exclusive.
            max_bytes: Limit of message bytes, >= 1; at least one record is returned if there is
                one.
            max_records: Limit of records, >= 1.

        Raises:
            LogFailedError: A file cannot be read.
        """
        result = self._begin(offset, end)
        while (
            result.next_offset < end
            and result.record_count < max_records
            and result.message_bytes < max_bytes
        ):
            self._read_segment(end, max_records, max_bytes, _WINDOWS_MAX, result)
        return result

    def read_window(
        self, offset: int, end: int, max_records: int, max_bytes: int, large_bytes: int
    ) -> ReadResult:
        """Return the records of one piece of a file; see `Log.read_window`.

        Raises:
            LogFailedError: A file cannot be read.
        """
        result = self._begin(offset, end)
        while result.next_offset < end and not result.parts:
            self._read_segment(
                end, max_records, max_bytes, 1, result, whole_chunks=True, large_bytes=large_bytes
            )
        return result

    def first_offset_at(self, timestamp_ns: int, end: int) -> int:
        """Return the lowest offset appended at or after a time; `end` if there is none.

        Raises:
            LogFailedError: A file cannot be read.
        """
        while True:
            segments = self._segments.snapshot
            try:
                search = TimeSearch(segments, end, self.indexes, self.reader)
                return search.first_offset_at(timestamp_ns)
            except OSError as error:
                if segments == self._segments.snapshot:
                    raise LogFailedError(segments[0].path.parent, error) from error
            # Retention removed a segment during the search.

    def _begin(self, offset: int, end: int) -> ReadResult:
        first = self._segments.first
        start = end if first is None else min(first.base_offset, end)
        return ReadResult(next_offset=max(offset, start))

    def _read_segment(
        self,
        end: int,
        max_records: int,
        max_bytes: int,
        max_windows: int,
        result: ReadResult,
        *,
        whole_chunks: bool = False,
        large_bytes: int = 0,
    ) -> None:
        """Read in the segment of the next offset; move to the next segment at its end."""
        segments = self._segments.snapshot
        if not segments:
            result.next_offset = end
            return
        offset = result.next_offset
        at = find_segment(segments, offset)
        segment = segments[at]
        result.next_offset = max(offset, segment.base_offset)
        try:
            position = self._position(segment, offset)
            position = self.reader.read(
                ReadRequest(
                    segment,
                    position,
                    until_offset=end,
                    max_records=max_records - result.record_count,
                    max_bytes=max_bytes - result.message_bytes,
                    result=result,
                    max_windows=max_windows,
                    whole_chunks=whole_chunks,
                    large_bytes=large_bytes,
                )
            )
        except OSError as error:
            if segment in self._segments:
                raise LogFailedError(segment.path, error) from error
            if self._segments.find(segment.base_offset) is not None:
                return  # compacted: the caller continues in the segment that replaced it
            # Retention removed the segment during the read: everything in it is settled.
            result.next_offset = min(max(result.next_offset, segment.end_offset), end)
            return
        if position < segment.data_bytes:
            self._remember(segment, result.next_offset, position)
            return
        follows = segments[at + 1].base_offset if at + 1 < len(segments) else end
        if segment.end_offset < follows and at + 1 < len(segments):
            result.lost.append((max(result.next_offset, segment.end_offset), follows))
        result.next_offset = min(max(result.next_offset, follows), end)
        if at + 1 == len(segments):
            self._remember(segment, result.next_offset, position)

    def _position(self, segment: Segment, offset: int) -> int:
        known = self._cursors.get(offset)
        if known is not None and known[0] is segment:
            return known[1]
        return self.indexes.locate(segment, offset)

    def _remember(self, segment: Segment, offset: int, position: int) -> None:
        """Store where a sequential reader continues, so that it needs no index."""
        with self._cursors_lock:
            if len(self._cursors) >= _CURSORS_MAX:
                del self._cursors[next(iter(self._cursors))]
            self._cursors[offset] = (segment, position)
