"""Ready messages as disjoint ranges of offsets: requeued ones, or those beside a hole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.sorted_runs import SortedRuns

if TYPE_CHECKING:
    from collections.abc import Sequence


class ReadyRange:
    """Ready offsets `[start, end)`, all of them delivered before or none; nothing changes it."""

    __slots__ = ("end", "redelivered", "start")

    def __init__(self, start: int, end: int, redelivered: bool) -> None:
        self.start = start
        self.end = end
        self.redelivered = redelivered

    def __len__(self) -> int:
        """Return the number of offsets in the range."""
        return self.end - self.start

    def __eq__(self, other: object) -> bool:
        """Return whether the other holds the same offsets, delivered before or not."""
        return (
            isinstance(other, ReadyRange)
            and self.start == other.start
            and self.end == other.end
            and self.redelivered == other.redelivered
        )

    def __repr__(self) -> str:
        """Return the range as it is written."""
        return f"ReadyRange({self.start}, {self.end}, {self.redelivered})"


class ReadyRanges:
    """Disjoint ranges in ascending order; adjacent ranges with equal flags are joined.

    Attributes:
        count: Number of offsets in all ranges.
    """

    def __init__(self) -> None:
        self.count = 0
        self._ranges: SortedRuns[ReadyRange] = SortedRuns()

    def __len__(self) -> int:
        """Return the number of offsets in all ranges."""
        return self.count

    def first(self) -> ReadyRange | None:
        """Return the lowest range. O(1)."""
        return self._ranges.first()

    def first_undelivered(self) -> int | None:
        """Return the lowest offset that was never delivered. O(ranges)."""
        return next((ready.start for ready in self._ranges if not ready.redelivered), None)

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `first()`, which must have that many."""
        first = self._ranges.first()
        assert first is not None, "took more than is ready"
        assert 0 < count <= len(first), "took more than the first range holds"
        self.count -= count
        if count < len(first):
            start = first.start + count
            self._ranges.update(first.start, start, ReadyRange(start, first.end, first.redelivered))
            return ReadyRange(first.start, start, first.redelivered)
        self._ranges.remove(first.start)
        return first

    def add(self, start: int, end: int, *, redelivered: bool) -> None:
        """Insert `[start, end)`, none of which may be present. O(log ranges)."""
        ranges = self._ranges
        before, after = ranges.neighbours(start)
        assert before is None or before.end <= start, "requeued what is ready already"
        assert after is None or end <= after.start, "requeued what is ready already"
        self.count += end - start
        if after is not None and after.start == end and after.redelivered == redelivered:
            ranges.remove(end)
            end = after.end
        if before is not None and before.end == start and before.redelivered == redelivered:
            joined = ReadyRange(before.start, end, redelivered)
            ranges.update(before.start, before.start, joined)
        else:
            ranges.insert(start, ReadyRange(start, end, redelivered))

    def add_all(self, added: Sequence[tuple[int, int]], *, redelivered: bool) -> None:
        """Insert ranges that are ascending and disjoint, none of which may be present.

        O(ranges added, times the logarithm of those present).
        """
        if not added:
            return
        if len(added) == 1 or self._ranges.count_between(added[0][0], added[-1][1]) > len(added):
            # Merging would examine all that lie between.
            for start, end in added:
                self.add(start, end, redelivered=redelivered)
            return
        self._merge([(start, end, redelivered) for start, end in added])

    def cut(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return, in order, the present parts of `[start, end)`, which is not empty."""
        assert start < end, "an empty range would split another range"
        touched = overlapping(self._ranges, start, end)
        if not touched:
            return []
        first, last = touched[0], touched[-1]
        kept: list[ReadyRange] = []
        if first.start < start:
            kept.append(ReadyRange(first.start, start, first.redelivered))
        if end < last.end:
            kept.append(ReadyRange(end, last.end, last.redelivered))
        # The upper part that stays may begin above all keys that are removed.
        highest = kept[-1].start if kept else last.start
        keys = [each.start for each in kept]
        self._ranges.replace(first.start, max(last.start, highest) + 1, keys, kept)
        taken = clipped(touched, start, end)
        self.count -= sum(map(len, taken))
        return taken

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the present parts of `[start, end)`, in order; changes nothing."""
        present = clipped(overlapping(self._ranges, start, end), start, end)
        return [(ready.start, ready.end) for ready in present]

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything, in order."""
        self.count = 0
        return self._ranges.take_all()

    def free_some(self) -> bool:
        """Remove at most 1,024 ranges; return whether more are left."""
        self.count -= sum(map(len, self._ranges.take_first_chunk()))
        return self.count > 0

    def _merge(self, added: list[tuple[int, int, bool]]) -> None:
        """Insert ascending ranges together with those between them, and join what touches."""
        first, last = added[0][0], added[-1][1]
        before = self._ranges.at_or_before(first)
        low = first if before is None else before.start
        self.count += sum(end - start for start, end, _ in added)
        present = self._ranges.between(low, last + 1)
        if present:
            # Both parts are sorted, so sorting merges them.
            added = sorted([(old.start, old.end, old.redelivered) for old in present] + added)
        joined: list[ReadyRange] = []
        start, end, redelivered = added[0][0], added[0][0], added[0][2]
        for added_start, added_end, added_redelivered in added:
            assert end <= added_start, "requeued what is ready already"
            if end < added_start or added_redelivered != redelivered:
                joined.append(ReadyRange(start, end, redelivered))
                start, redelivered = added_start, added_redelivered
            end = added_end
        joined.append(ReadyRange(start, end, redelivered))
        self._ranges.replace(low, last + 1, [each.start for each in joined], joined)


def overlapping(ranges: SortedRuns[ReadyRange], start: int, end: int) -> list[ReadyRange]:
    """Return the ranges that overlap `[start, end)`, whole; by their starts in `ranges`."""
    found = ranges.between(start, end)
    before = ranges.at_or_before(start)
    if before is not None and before.start < start < min(before.end, end):
        found.insert(0, before)
    return found


def clipped(ranges: list[ReadyRange], start: int, end: int) -> list[ReadyRange]:
    """Return the parts of the ranges, all of which overlap `[start, end)`, that lie in it."""
    parts = list(ranges)
    for at in {0, len(ranges) - 1} if ranges else ():
        ready = parts[at]
        if ready.start < start or end < ready.end:
            low, high = max(start, ready.start), min(end, ready.end)
            parts[at] = ReadyRange(low, high, ready.redelivered)
    return parts
