"""Which offset of a queue is delivered next: a cursor, and ranges that came back.

A queue that nobody disturbs is one number: everything from the cursor on is ready. What is
requeued returns to its own place as a range below the cursor, so the lowest range always
goes first and the order of publishing is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadyRange:
    """Offsets `[start, end)` that are ready, alike in whether they were delivered before."""

    start: int
    end: int
    redelivered: bool

    def __len__(self) -> int:
        """Return how many offsets the range holds."""
        return self.end - self.start


class ReadyOrder:
    """The ready messages of one plain queue.

    Args:
        cursor: First offset that was never ready before (a recovered log's end offset).
    """

    def __init__(self, cursor: int = 0) -> None:
        """Make an order with nothing ready."""
        self.cursor = cursor
        self.end = cursor
        self._requeued: list[ReadyRange] = []
        self._requeued_count = 0

    def __len__(self) -> int:
        """Return how many messages are ready."""
        return self.end - self.cursor + self._requeued_count

    @property
    def delivered_end(self) -> int:
        """All offsets that were ever delivered are below this one. O(ranges)."""
        # The lowest goes first, so what was recovered undelivered is above all that was delivered.
        for ready in self._requeued:
            if not ready.redelivered:
                return ready.start
        return self.cursor

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        self.end = end

    def peek(self) -> ReadyRange | None:
        """Return the range that goes next, or None when nothing is ready. O(1)."""
        if self._requeued:
            return self._requeued[0]
        if self.cursor < self.end:
            return ReadyRange(self.cursor, self.end, redelivered=False)
        return None

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must hold as many."""
        if self._requeued:
            first = self._requeued[0]
            assert 0 < count <= len(first), "took more than the first range holds"
            taken = ReadyRange(first.start, first.start + count, first.redelivered)
            if count == len(first):
                del self._requeued[0]
            else:
                self._requeued[0] = ReadyRange(first.start + count, first.end, first.redelivered)
            self._requeued_count -= count
            return taken
        assert 0 < count <= self.end - self.cursor, "took more than is ready"
        taken = ReadyRange(self.cursor, self.cursor + count, redelivered=False)
        self.cursor += count
        return taken

    def give_back(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, below the cursor, to its place."""
        assert start < end <= self.cursor, "gave back what was never taken"
        ranges = self._requeued
        self._requeued_count += end - start
        at = bisect_left(ranges, start, key=lambda ready: ready.start)
        if at < len(ranges):
            after = ranges[at]
            assert end <= after.start, "gave back what is ready already"
            if after.start == end and after.redelivered == redelivered:
                end = after.end
                del ranges[at]
        if at > 0:
            before = ranges[at - 1]
            assert before.end <= start, "gave back what is ready already"
            if before.end == start and before.redelivered == redelivered:
                ranges[at - 1] = ReadyRange(before.start, end, redelivered)
                return
        ranges.insert(at, ReadyRange(start, end, redelivered))

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready, in order (a purge)."""
        taken, self._requeued, self._requeued_count = self._requeued, [], 0
        if self.cursor < self.end:
            taken.append(ReadyRange(self.cursor, self.end, redelivered=False))
            self.cursor = self.end
        return taken

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return what is ready in `[start, end)`; `start` is at most the cursor."""
        assert start <= self.cursor, "what was never ready cannot be taken from the middle"
        taken: list[ReadyRange] = []
        kept: list[ReadyRange] = []
        for ready in self._requeued:
            low, high = max(start, ready.start), min(end, ready.end)
            if low >= high:
                kept.append(ready)
                continue
            taken.append(ReadyRange(low, high, ready.redelivered))
            kept += [
                ReadyRange(left, right, ready.redelivered)
                for left, right in ((ready.start, low), (high, ready.end))
                if left < right
            ]
        self._requeued = kept
        self._requeued_count -= sum(map(len, taken))
        high = min(end, self.end)
        if self.cursor < high:
            taken.append(ReadyRange(self.cursor, high, redelivered=False))
            self.cursor = high
        return taken
