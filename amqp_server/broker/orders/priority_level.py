"""The ready messages of one priority, as ranges of offsets that span those of other priorities.

When messages of two priorities are published in turn, each would otherwise be a range of its own:
an object for each message, made and moved whenever many of them come or go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.orders.ready_ranges import ReadyRange, clipped, overlapping
from amqp_server.broker.sorted_runs import SortedRuns

if TYPE_CHECKING:
    from amqp_server.broker.orders.offset_array import OffsetArray

WINDOW_OFFSETS: Final = 4096
"""Most offsets whose levels are looked at together, and the widest gap over which ranges join."""
_FIRST_LOOK: Final = 64
"""Offsets that a search looks at first: the next message is most often near."""


class MessageLevels:
    """The level of each message of a queue: its priority, or the highest one if that is lower.

    Args:
        priorities: Priority of each message, 0 to 255, as published.
        max_priority: Highest level.
    """

    def __init__(self, priorities: OffsetArray, max_priority: int) -> None:
        self._priorities = priorities
        self._capped = bytes([min(priority, max_priority) for priority in range(256)])

    def of(self, start: int, end: int) -> bytes:
        """Return the levels of the messages `[start, end)`, an octet each."""
        return self._priorities.numbers(start, end).tobytes().translate(self._capped)

    def of_known(self, start: int, end: int) -> bytes:
        """Return the levels of the messages of `[start, end)` that are known, in any order."""
        known = self._priorities
        low, high = max(start, known.start), min(end, known.end)
        return self.of(low, high) if low < high else b""


class PriorityLevel:
    """Ranges in which each message of this level is ready; what other levels have there is not.

    A range begins at a message of this level. Ranges with equal flags are joined if no message of
    this level lies between them, and if they are not far apart.

    Args:
        number: Number of the level, 0 to 255.
        levels: Levels of the queue's messages.

    Attributes:
        number: Number of the level.
        count: Ready messages of this level.
    """

    def __init__(self, number: int, levels: MessageLevels) -> None:
        self.number = number
        self.count = 0
        self._own = bytes((number,))
        self._levels_of = levels.of
        self._ranges: SortedRuns[ReadyRange] = SortedRuns()
        # The messages `[_run_start, _run_end)` are known to be of this level, all of them.
        self._run_start = self._run_end = 0

    def ranges(self) -> list[ReadyRange]:
        """Return all ranges, in order. O(ranges)."""
        return list(self._ranges)

    def first(self) -> ReadyRange | None:
        """Return the lowest messages of this level that follow each other, or at least some."""
        first = self._ranges.first()
        if first is None:
            return None
        return ReadyRange(first.start, self._end_of_run(first), first.redelivered)

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `first()`, which must have that many."""
        first = self._ranges.first()
        assert first is not None, "took more than is ready"
        end, run_end = first.start + count, self._end_of_run(first)
        assert first.start < end <= run_end, "took nothing, or more than the first run holds"
        self.count -= count
        if end < run_end:
            start: int | None = end
            self._run_start = end
        else:
            start = self._next(end, first.end)
        if start is None:
            self._ranges.remove_first()
        else:
            rest = ReadyRange(start, first.end, first.redelivered)
            self._ranges.update(first.start, start, rest)
        return ReadyRange(first.start, end, first.redelivered)

    def add(self, start: int, end: int, count: int, *, redelivered: bool) -> None:
        """Make all messages of this level in `[start, end)` ready, none of which may be yet.

        Args:
            start: Offset of the first of them.
            end: Offset after the last of them.
            count: How many they are.
            redelivered: Whether they were delivered before.
        """
        ranges = self._ranges
        before, after = ranges.neighbours(start)
        assert before is None or before.end <= start, "requeued what is ready already"
        assert after is None or end <= after.start, "requeued what is ready already"
        self.count += count
        if (
            after is not None
            and after.redelivered == redelivered
            and self._has_none(end, after.start)
        ):
            ranges.remove(after.start)
            end = after.end
        if (
            before is not None
            and before.redelivered == redelivered
            and self._has_none(before.end, start)
        ):
            ranges.update(before.start, before.start, ReadyRange(before.start, end, redelivered))
        else:
            ranges.insert(start, ReadyRange(start, end, redelivered))

    def cut(self, start: int, end: int) -> list[ReadyRange]:
        """Remove the ready messages of `[start, end)`, which is not empty.

        Returns:
            The ranges in which they are, ascending and within `[start, end)`.
        """
        assert start < end, "an empty range would split another range"
        touched = overlapping(self._ranges, start, end)
        if not touched:
            return []
        first, last = touched[0], touched[-1]
        kept: list[ReadyRange] = []
        if first.start < start:
            kept.append(ReadyRange(first.start, start, first.redelivered))
        if end < last.end and (rest := self._next(end, last.end)) is not None:
            kept.append(ReadyRange(rest, last.end, last.redelivered))
        # The upper part that stays may begin above all keys that are removed.
        highest = max(kept[-1].start, last.start) if kept else last.start
        self._ranges.replace(first.start, highest + 1, [each.start for each in kept], kept)
        taken = clipped(touched, start, end)
        self.count -= sum(self._count(each.start, each.end) for each in taken)
        return taken

    def within(self, start: int, end: int) -> list[ReadyRange]:
        """Return the ranges with the ready messages of `[start, end)`, ascending and within it."""
        return clipped(overlapping(self._ranges, start, end), start, end)

    def take_all(self) -> list[ReadyRange]:
        """Remove all ready messages; return the ranges in which they are, in order."""
        self.count = 0
        return self._ranges.take_all()

    def free_some(self) -> bool:
        """Remove at most 1,024 ranges, because nothing uses them; return whether more are left."""
        self._ranges.take_first_chunk()
        if not len(self._ranges):
            self.count = 0
        return self.count > 0

    def _end_of_run(self, first: ReadyRange) -> int:
        """Return the end of the messages of this level that the first range begins with, or less.

        Each message is looked at once, however often this is asked for.
        """
        if not self._run_start <= first.start < self._run_end:
            end = first.start
            for look in (_FIRST_LOOK, WINDOW_OFFSETS):
                stop = min(end + look, first.end)
                end = stop - len(self._levels_of(end, stop).lstrip(self._own))
                if end < stop:
                    break
            self._run_start, self._run_end = first.start, end
        return min(self._run_end, first.end)

    def _next(self, start: int, end: int) -> int | None:
        """Return the first offset of `[start, end)` whose message has this level, or None."""
        look = _FIRST_LOOK
        while start < end:
            stop = min(start + look, end)
            at = self._levels_of(start, stop).find(self._own)
            if at >= 0:
                return start + at
            start, look = stop, WINDOW_OFFSETS
        return None

    def _count(self, start: int, end: int) -> int:
        return sum(
            self._levels_of(low, min(low + WINDOW_OFFSETS, end)).count(self._own)
            for low in range(start, end, WINDOW_OFFSETS)
        )

    def _has_none(self, start: int, end: int) -> bool:
        """Return whether `[start, end)` is known to have no message of this level."""
        if end - start > WINDOW_OFFSETS:
            return False
        return start == end or self._own not in self._levels_of(start, end)
