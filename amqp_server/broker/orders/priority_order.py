"""The order of a queue with priorities: highest first, in order of publishing among equals.

Source: RabbitMQ, priority queues: a message without a priority has priority 0; a priority above
the queue's maximum counts as the maximum.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from amqp_server.broker.orders.priority_level import WINDOW_OFFSETS, MessageLevels, PriorityLevel
from amqp_server.broker.orders.ready_ranges import ReadyRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amqp_server.broker.orders.offset_array import OffsetArray

_FRESH: Final = 1
_REDELIVERED: Final = 2
_MARKED: Final = re.compile(rb"\x01+|\x02+")
"""Messages that follow each other, by the marks `_FRESH` and `_REDELIVERED`."""


class PriorityOrder:
    """The ready messages by priority; see `ReadyOrder` for the contract of the methods.

    Args:
        priorities: Priority of each message from `cursor` on, known before it becomes ready.
        max_priority: Highest priority.
        cursor: First offset that was never ready before.
    """

    def __init__(self, priorities: OffsetArray, max_priority: int, cursor: int = 0) -> None:
        self.end = cursor
        self._message_levels = MessageLevels(priorities, max_priority)
        self._levels = [
            PriorityLevel(number, self._message_levels) for number in range(max_priority + 1)
        ]
        self._count = 0

    def __len__(self) -> int:
        """Return the number of ready messages."""
        return self._count

    @property
    def delivered_end(self) -> int:
        """0: any message may go before any other, so no single offset separates them."""
        return 0

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return ready ranges that were delivered before, ascending. O(messages)."""
        return [
            (ready.start, ready.end)
            for ready in self._in_order([(level.number, level.ranges()) for level in self._levels])
            if ready.redelivered
        ]

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ready parts of `[start, end)`, ascending and disjoint; changes nothing."""
        found = [(level.number, level.within(start, end)) for level in self._present(start, end)]
        return [(ready.start, ready.end) for ready in self._in_order(found)]

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        start, self.end = self.end, end
        if start < end:
            self._add(start, end, redelivered=False)

    def peek(self) -> ReadyRange | None:
        """Return the first messages of the highest level that has some. O(levels)."""
        for level in reversed(self._levels):
            if level.count:
                return level.first()
        return None

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must have that many."""
        for level in reversed(self._levels):
            if level.count:
                self._count -= count
                return level.take(count)
        raise AssertionError("took more than is ready")

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)` to its place."""
        self._add(start, end, redelivered=redelivered)

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return ascending ranges to their places, as redelivered."""
        for start, end in ranges:
            self._add(start, end, redelivered=True)

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready, ascending."""
        self._count = 0
        return self._in_order([(level.number, level.take_all()) for level in self._levels])

    def free_some(self) -> bool:
        """Free at most 1,024 ranges; return whether more are left."""
        level = next((each for each in self._levels if each.count), None)
        if level is not None:
            level.free_some()
        return any(each.count for each in self._levels)

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return the ready parts of `[start, end)`, in ascending order."""
        cut = [(level.number, level.cut(start, end)) for level in self._present(start, end)]
        taken = self._in_order(cut)
        self._count -= sum(map(len, taken))
        return taken

    def _present(self, start: int, end: int) -> Sequence[PriorityLevel]:
        """Return the levels that may have messages in `[start, end)`.

        A cut would split the ranges of the others, which have none there.
        """
        if end - start > WINDOW_OFFSETS:
            return self._levels
        return [self._levels[number] for number in set(self._message_levels.of_known(start, end))]

    def _add(self, start: int, end: int, *, redelivered: bool) -> None:
        self._count += end - start
        for low in range(start, end, WINDOW_OFFSETS):
            numbers = self._message_levels.of(low, min(low + WINDOW_OFFSETS, end))
            number = numbers[0]
            count = numbers.count(number)
            if count == len(numbers):
                self._levels[number].add(low, low + count, count, redelivered=redelivered)
                continue
            for number in set(numbers):
                self._levels[number].add(
                    low + numbers.find(number),
                    low + numbers.rfind(number) + 1,
                    numbers.count(number),
                    redelivered=redelivered,
                )

    def _in_order(self, of_levels: Iterable[tuple[int, list[ReadyRange]]]) -> list[ReadyRange]:
        """Return the messages of the levels' ranges, ascending, as few ranges.

        O(messages), but most of it is done for thousands at a time.

        Args:
            of_levels: Numbers of levels, each with some of its ranges.
        """
        # By window: level, mark and range of what lies in it.
        windows: defaultdict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, ranges in of_levels:
            for ready in ranges:
                mark = _REDELIVERED if ready.redelivered else _FRESH
                first = ready.start - ready.start % WINDOW_OFFSETS
                for at in range(first, ready.end, WINDOW_OFFSETS):
                    low, high = max(ready.start, at), min(ready.end, at + WINDOW_OFFSETS)
                    windows[at].append((low, high, number, mark))
        found: list[ReadyRange] = []
        for at in sorted(windows):
            for low, high, redelivered in self._runs(windows[at]):
                if found and found[-1].end == low and found[-1].redelivered == redelivered:
                    found[-1] = ReadyRange(found[-1].start, high, redelivered)
                else:
                    found.append(ReadyRange(low, high, redelivered))
        return found

    def _runs(self, parts: list[tuple[int, int, int, int]]) -> list[tuple[int, int, bool]]:
        """Return the messages of parts of one window, ascending: start, end, redelivered."""
        start, end = min(part[0] for part in parts), max(part[1] for part in parts)
        numbers = self._message_levels.of(start, end)
        if len(parts) == 1 and numbers.count(parts[0][2]) == len(numbers):
            # Most often: there is no other level.
            return [(start, end, parts[0][3] == _REDELIVERED)]
        marks = bytearray(end - start)
        for low, high, number, mark in parts:
            at, to = low - start, high - start
            mine = bytearray(256)
            mine[number] = mark
            # A message has one level, so the marks of two levels never meet.
            both = int.from_bytes(marks[at:to]) | int.from_bytes(numbers[at:to].translate(mine))
            marks[at:to] = both.to_bytes(to - at)
        return [
            (start + run.start(), start + run.end(), marks[run.start()] == _REDELIVERED)
            for run in _MARKED.finditer(marks)
        ]
