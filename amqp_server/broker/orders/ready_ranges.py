"""Ready messages as disjoint ranges of offsets: requeued ones, or those beside a hole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

_USED_UP_MAX = 1024
"""Used entries at the front of the list that may remain before they are deleted."""


@dataclass(frozen=True, slots=True)
class ReadyRange:
    """Ready offsets `[start, end)`, all of them delivered before or none."""

    start: int
    end: int
    redelivered: bool

    def __len__(self) -> int:
        """Return the number of offsets in the range."""
        return self.end - self.start


class ReadyRanges:
    """Disjoint ranges in ascending order; adjacent ranges with equal flags are joined."""

    def __init__(self) -> None:
        self._count = 0
        # Entries before the head are used up. Deleting each at once would move all the others.
        self._ranges: list[ReadyRange] = []
        self._head = 0

    def __len__(self) -> int:
        """Return the number of offsets in all ranges."""
        return self._count

    def ranges(self) -> list[ReadyRange]:
        """Return all ranges, in order. O(ranges)."""
        return self._ranges[self._head :]

    def first(self) -> ReadyRange | None:
        """Return the lowest range. O(1)."""
        return self._ranges[self._head] if self._count else None

    def first_undelivered(self) -> int | None:
        """Return the lowest offset that was never delivered. O(ranges)."""
        for at in range(self._head, len(self._ranges)):
            if not self._ranges[at].redelivered:
                return self._ranges[at].start
        return None

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `first()`, which must have that many."""
        first = self._ranges[self._head]
        assert 0 < count <= len(first), "took more than the first range holds"
        self._count -= count
        if count < len(first):
            self._ranges[self._head] = ReadyRange(first.start + count, first.end, first.redelivered)
            return ReadyRange(first.start, first.start + count, first.redelivered)
        self._head += 1
        if self._head > _USED_UP_MAX or not self._count:
            del self._ranges[: self._head]
            self._head = 0
        return first

    def add(self, start: int, end: int, *, redelivered: bool) -> None:
        """Insert `[start, end)`, none of which may be present."""
        ranges = self._ranges
        self._count += end - start
        at = bisect_left(ranges, start, self._head, key=_start)
        if at < len(ranges):
            after = ranges[at]
            assert end <= after.start, "requeued what is ready already"
            if after.start == end and after.redelivered == redelivered:
                end = after.end
                del ranges[at]
        if at > self._head:
            before = ranges[at - 1]
            assert before.end <= start, "requeued what is ready already"
            if before.end == start and before.redelivered == redelivered:
                ranges[at - 1] = ReadyRange(before.start, end, redelivered)
                return
        ranges.insert(at, ReadyRange(start, end, redelivered))

    def cut(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return, in order, the present parts of `[start, end)`, which is not empty."""
        assert start < end, "an empty range would split another range"
        ranges = self._ranges
        first = bisect_right(ranges, start, self._head, key=_end)
        last = bisect_left(ranges, end, first, key=_start)
        taken: list[ReadyRange] = []
        kept: list[ReadyRange] = []
        for ready in ranges[first:last]:
            low, high = max(start, ready.start), min(end, ready.end)
            taken.append(ReadyRange(low, high, ready.redelivered))
            kept += [
                ReadyRange(left, right, ready.redelivered)
                for left, right in ((ready.start, low), (high, ready.end))
                if left < right
            ]
        ranges[first:last] = kept
        self._count -= sum(map(len, taken))
        return taken

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the present parts of `[start, end)`, in order; changes nothing."""
        first = bisect_right(self._ranges, start, self._head, key=_end)
        last = bisect_left(self._ranges, end, first, key=_start)
        return [
            (max(start, ready.start), min(end, ready.end)) for ready in self._ranges[first:last]
        ]

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything, in order."""
        taken = self.ranges()
        self._ranges, self._head, self._count = [], 0, 0
        return taken


def _start(ready: ReadyRange) -> int:
    return ready.start


def _end(ready: ReadyRange) -> int:
    return ready.end
