"""First in, first out: one offset, and ranges that were requeued.

A queue without requeues needs one number: every message from `next_offset` on is ready. A requeued
message returns to its own place as a range below `next_offset`. The lowest range goes first, so the
order of publishing is kept. A message that leaves from the middle (it expired) is a hole above
`next_offset`: a bit in a bitmap, until `next_offset` has passed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.orders.ready_ranges import ReadyRange, ReadyRanges
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_AHEAD = 256
"""Offsets that `peek` examines when there are holes; it need not find the whole range."""


class FifoOrder:
    """The ready messages of a queue without priorities; see `ReadyOrder` for the methods.

    Args:
        next_offset: First offset that was never ready before (a recovered log's end offset).
    """

    def __init__(self, next_offset: int = 0) -> None:
        self.next_offset = next_offset
        self.end = next_offset
        self._below = ReadyRanges()
        # The floor of the holes is `next_offset`, so `next_offset` never lies in a hole.
        self._holes: Settlement | None = None

    def __len__(self) -> int:
        """Return the number of ready messages."""
        count = self.end - self.next_offset + self._below.count
        return count if self._holes is None else count - self._holes.settled_above_floor

    @property
    def delivered_end(self) -> int:
        """End of all offsets that have ever been delivered (exclusive). O(ranges)."""
        # The lowest goes first, so undelivered messages are above all delivered ones.
        undelivered = self._below.first_undelivered()
        return self.next_offset if undelivered is None else undelivered

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return nothing: everything delivered is below `delivered_end`."""
        return []

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ready parts of `[start, end)`, ascending and disjoint; changes nothing."""
        below = self._below.within(start, min(end, self.next_offset))
        return below + self._ready_above(max(start, self.next_offset), min(end, self.end))

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        self.end = end

    def peek(self) -> ReadyRange | None:
        """Return the range that comes next, or None if nothing is ready. O(1)."""
        if self._below.count:
            return self._below.first()
        if self.next_offset == self.end:
            return None
        end = self.end
        if self._holes is not None:
            # A hole lies below the end, so the range before it does too.
            look_end = self.next_offset + _LOOK_AHEAD
            _, end = self._ready_above(self.next_offset, look_end)[0]
        return ReadyRange(self.next_offset, end, redelivered=False)

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must have that many."""
        if self._below.count:
            return self._below.take(count)
        assert 0 < count <= self.end - self.next_offset, "took more than is ready"
        taken = ReadyRange(self.next_offset, self.next_offset + count, redelivered=False)
        if self._holes is None:
            self.next_offset = taken.end
        else:
            self._move_next_offset(taken.end)
        return taken

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, below `next_offset`, to its place."""
        assert start < end <= self.next_offset, "requeued what was never taken"
        self._below.add(start, end, redelivered=redelivered)

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return ascending ranges, all below `next_offset`, to their places, as redelivered."""
        assert not ranges or ranges[-1][1] <= self.next_offset, "requeued what was never taken"
        self._below.add_all(ranges, redelivered=True)

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready, in order (a purge)."""
        taken = self._below.take_all() + self._never_delivered(self.next_offset, self.end)
        self._holes = None
        self.next_offset = self.end
        return taken

    def free_some(self) -> bool:
        """Free at most 1,024 requeued ranges; return whether more are left."""
        return self._below.free_some()

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return the ready parts of `[start, end)`, in order."""
        taken = self._below.cut(start, end)
        low, high = max(start, self.next_offset), min(end, self.end)
        if low < high:
            taken += self._never_delivered(low, high)
            if low == self.next_offset:
                self._move_next_offset(high)
            else:
                self._holes = self._holes or Settlement(self.next_offset)
                self._holes.settle(low, high)
        return taken

    def _move_next_offset(self, next_offset: int) -> None:
        """Move `next_offset`, and further over the holes that begin there."""
        self.next_offset = next_offset
        if self._holes is not None:
            self._holes.settle(0, next_offset)
            self.next_offset = self._holes.ack_floor
            if not self._holes.settled_above_floor:
                self._holes = None

    def _never_delivered(self, start: int, end: int) -> list[ReadyRange]:
        ready = self._ready_above(start, end)
        return [ReadyRange(low, high, redelivered=False) for low, high in ready]

    def _ready_above(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ready parts of `[start, end)`, none of it below `next_offset`."""
        if start >= end:
            return []
        if self._holes is not None:
            return self._holes.unsettled_ranges(start, end)
        return [(start, end)]
