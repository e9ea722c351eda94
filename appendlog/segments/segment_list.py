"""The segments of one log, in order. Any thread reads them, at most two threads change them.

One thread appends; another removes settled segments at the same time.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from appendlog.segments.segment import Segment


class SegmentList:
    """Segments by base offset, ascending and disjoint.

    Every change replaces the whole tuple. So a reader in another thread that took `snapshot` has a
    consistent list and needs no lock.
    """

    __slots__ = ("_changing", "_segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = tuple(segments)
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, segment: Segment) -> bool:
        return segment in self._segments

    @property
    def snapshot(self) -> tuple[Segment, ...]:
        """The current segments."""
        return self._segments

    @property
    def first(self) -> Segment | None:
        """The oldest segment, or None if there is none."""
        segments = self._segments
        return segments[0] if segments else None

    @property
    def last(self) -> Segment | None:
        """The newest segment, or None if there is none."""
        segments = self._segments
        return segments[-1] if segments else None

    @property
    def size_bytes(self) -> int:
        """Size of all segment files, in bytes."""
        return sum(segment.size_bytes for segment in self._segments)

    def find(self, base_offset: int) -> Segment | None:
        """Return the segment that begins at an offset, or None."""
        segments = self._segments
        at = bisect_right(segments, base_offset, key=_base_offset) - 1
        return segments[at] if at >= 0 and segments[at].base_offset == base_offset else None

    def add(self, created: Iterable[Segment]) -> None:
        """Append new segments."""
        with self._changing:
            self._segments = (*self._segments, *created)

    def remove_first(self) -> Segment:
        """Remove the oldest segment and return it; there must be one."""
        with self._changing:
            first, *rest = self._segments
            self._segments = tuple(rest)
        return first

    def replace(self, old: Segment, new: Segment) -> None:
        """Replace a segment, which must be there, with another."""
        with self._changing:
            assert old in self._segments, "not a segment of this log"
            self._segments = tuple(new if each is old else each for each in self._segments)

    def take(self, segments: Iterable[Segment]) -> None:
        """Replace all segments."""
        with self._changing:
            self._segments = tuple(segments)

    def clear(self) -> None:
        """Remove all segments."""
        self._segments = ()


def find_segment(segments: tuple[Segment, ...], offset: int) -> int:
    """Return the position in `segments` of the one whose range holds `offset`; 0 below all.

    Args:
        segments: Snapshot that is not empty.
        offset: Any offset.
    """
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
