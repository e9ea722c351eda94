"""The order of a queue with priorities: highest first, in order of publishing among equals.

Source: RabbitMQ, priority queues: a message without a priority has priority 0; a priority above
the queue's maximum counts as the maximum.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from amqp_server.broker.orders.ready_ranges import ReadyRange, ReadyRanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.broker.orders.offset_array import OffsetArray


class PriorityOrder:
    """The ready messages by priority; see `ReadyOrder` for the contract of the methods.

    Args:
        priorities: Priority of each message from `cursor` on, known before it becomes ready.
        max_priority: Highest priority.
        cursor: First offset that was never ready before.
    """

    def __init__(self, priorities: OffsetArray, max_priority: int, cursor: int = 0) -> None:
        self.end = cursor
        self._priorities = priorities
        self._levels = [ReadyRanges() for _ in range(max_priority + 1)]
        self._count = 0

    def __len__(self) -> int:
        """Return the number of ready messages."""
        return self._count

    @property
    def delivered_end(self) -> int:
        """0: any message may go before any other, so no single offset separates them."""
        return 0

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return ready ranges that were delivered before, in no order. O(ranges)."""
        return [
            (ready.start, ready.end)
            for level in self._levels
            for ready in level.ranges()
            if ready.redelivered
        ]

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ready parts of `[start, end)`, ascending and disjoint; changes nothing."""
        return sorted(ready for level in self._levels for ready in level.within(start, end))

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        start, self.end = self.end, end
        if start < end:
            self._add(start, end, redelivered=False)

    def peek(self) -> ReadyRange | None:
        """Return the first range of the highest level that has one. O(levels)."""
        for level in reversed(self._levels):
            if level:
                return level.first()
        return None

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must have that many."""
        for level in reversed(self._levels):
            if level:
                self._count -= count
                return level.take(count)
        raise AssertionError("took more than is ready")

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)` to its place."""
        self._add(start, end, redelivered=redelivered)

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return ascending ranges to their places, as redelivered."""
        runs: list[list[tuple[int, int]]] = [[] for _ in self._levels]
        for start, end in ranges:
            self._count += end - start
            for priority, low, high in self._runs(start, end):
                runs[priority].append((low, high))
        for level, added in zip(self._levels, runs, strict=True):
            level.add_all(added, redelivered=True)

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready, highest level first."""
        self._count = 0
        return [taken for level in reversed(self._levels) for taken in level.take_all()]

    def free_some(self) -> bool:
        """Free at most 1,024 ranges; return whether more are left."""
        level = next(filter(None, self._levels), None)
        if level is not None:
            level.free_some()
        return any(self._levels)

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return the ready parts of `[start, end)`, in ascending order."""
        taken = [ready for level in self._levels for ready in level.cut(start, end)]
        self._count -= sum(map(len, taken))
        return sorted(taken, key=lambda ready: ready.start)

    def _add(self, start: int, end: int, *, redelivered: bool) -> None:
        self._count += end - start
        for priority, low, high in self._runs(start, end):
            self._levels[priority].add(low, high, redelivered=redelivered)

    def _runs(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield runs of messages with equal priority, as (priority, start, end)."""
        at = start
        for priority, run in groupby(self._priorities.numbers(start, end)):
            count = sum(1 for _ in run)
            yield min(priority, len(self._levels) - 1), at, at + count
            at += count
