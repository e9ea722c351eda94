"""The segments of one log, in order: read by any thread, changed by two at most.

One appends; another removes what is settled meanwhile.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from appendlog.segments.segment import Segment


class SegmentList:
    """Segments by base offset, ascending and disjoint.

    Every change replaces the whole tuple, so a reader in another thread that took
    `snapshot` keeps a list that was true once and needs no lock.
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
        """The segments as they are now."""
        return self._segments

    @property
    def first(self) -> Segment | None:
        """The oldest segment, or None when there is none."""
        segments = self._segments
        return segments[0] if segments else None

    @property
    def last(self) -> Segment | None:
        """The newest segment, or None when there is none."""
        segments = self._segments
        return segments[-1] if segments else None

    @property
    def size_bytes(self) -> int:
        """Size of all segment files together."""
        return sum(segment.size_bytes for segment in self._segments)

    def find(self, base_offset: int) -> Segment | None:
        """Return the segment that begins at an offset, or None."""
        segments = self._segments
        at = bisect_right(segments, base_offset, key=_base_offset) - 1
        return segments[at] if at >= 0 and segments[at].base_offset == base_offset else None

    def add(self, created: Iterable[Segment]) -> None:
        """Put new segments behind the others."""
        with self._changing:
            self._segments = (*self._segments, *created)

    def remove_first(self) -> Segment:
        """Take the oldest segment out and return it; there must be one."""
        with self._changing:
            first, *rest = self._segments
            self._segments = tuple(rest)
        return first

    def replace(self, old: Segment, new: Segment) -> None:
        """Put a segment into the place of another, which must be there."""
        with self._changing:
            assert old in self._segments, "not a segment of this log"
            self._segments = tuple(new if each is old else each for each in self._segments)

    def take(self, segments: Iterable[Segment]) -> None:
        """Have these from now on."""
        with self._changing:
            self._segments = tuple(segments)

    def clear(self) -> None:
        """Take all out."""
        self._segments = ()


def find_segment(segments: tuple[Segment, ...], offset: int) -> int:
    """Return which of `segments` holds `offset`, or would if it were there; 0 below all.

    Args:
        segments: A snapshot, not empty.
        offset: Any offset.
    """
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
