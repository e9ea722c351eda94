"""The order of a plain queue: a cursor, and ranges that came back.

A queue that nobody disturbs is one number: everything from the cursor on is ready. What is
requeued returns to its own place as a range below the cursor, so the lowest range always
goes first and the order of publishing is kept. What leaves from the middle (it expired) is a
hole above the cursor, a bit in a bitmap, until the cursor has passed it.
"""

from __future__ import annotations

from amqp_server.broker.orders.ready_ranges import ReadyRange, ReadyRanges
from offsets.settlement import Settlement

_LOOK_AHEAD = 256
"""Offsets that `peek` looks at when there are holes: it need not know all that is ready."""


class PlainOrder:
    """The ready messages of one plain queue; see `ReadyOrder` for what its methods promise.

    Args:
        cursor: First offset that was never ready before (a recovered log's end offset).
    """

    def __init__(self, cursor: int = 0) -> None:
        """Make an order with nothing ready."""
        self.cursor = cursor
        self.end = cursor
        self._below = ReadyRanges()
        # Its floor is the cursor, so the cursor is never in a hole.
        self._holes: Settlement | None = None

    def __len__(self) -> int:
        """Return how many messages are ready."""
        count = self.end - self.cursor + len(self._below)
        return count if self._holes is None else count - self._holes.settled_above_floor

    @property
    def delivered_end(self) -> int:
        """All offsets that were ever delivered are below this one. O(ranges)."""
        # The lowest goes first, so what was never delivered is above all that was.
        undelivered = self._below.first_undelivered()
        return self.cursor if undelivered is None else undelivered

    def marked(self) -> list[tuple[int, int]]:
        """Return nothing: all that was delivered is below `delivered_end`."""
        return []

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what is ready of `[start, end)`, ascending and disjoint; nothing changes."""
        below = self._below.within(start, min(end, self.cursor))
        return below + self._ready_above(max(start, self.cursor), min(end, self.end))

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        self.end = end

    def peek(self) -> ReadyRange | None:
        """Return the range that goes next, or None when nothing is ready. O(1)."""
        if self._below:
            return self._below.first()
        if self.cursor == self.end:
            return None
        end = self.end
        if self._holes is not None:
            end = self._ready_above(self.cursor, min(end, self.cursor + _LOOK_AHEAD))[0][1]
        return ReadyRange(self.cursor, end, redelivered=False)

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must hold as many."""
        if self._below:
            return self._below.take(count)
        assert 0 < count <= self.end - self.cursor, "took more than is ready"
        taken = ReadyRange(self.cursor, self.cursor + count, redelivered=False)
        self._move_cursor(taken.end)
        return taken

    def give_back(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, below the cursor, to its place."""
        assert start < end <= self.cursor, "gave back what was never taken"
        self._below.add(start, end, redelivered=redelivered)

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready, in order (a purge)."""
        taken = self._below.take_all() + self._never_delivered(self.cursor, self.end)
        self._holes = None
        self.cursor = self.end
        return taken

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return what is ready in `[start, end)`, in order."""
        taken = self._below.cut(start, end)
        low, high = max(start, self.cursor), min(end, self.end)
        if low < high:
            taken += self._never_delivered(low, high)
            if low == self.cursor:
                self._move_cursor(high)
            else:
                self._holes = self._holes or Settlement(self.cursor)
                self._holes.settle(low, high)
        return taken

    def _move_cursor(self, cursor: int) -> None:
        """Move the cursor, and on over the holes that begin there."""
        self.cursor = cursor
        if self._holes is not None:
            self._holes.settle(0, cursor)
            self.cursor = self._holes.ack_floor
            if not self._holes.settled_above_floor:
                self._holes = None

    def _never_delivered(self, start: int, end: int) -> list[ReadyRange]:
        ready = self._ready_above(start, end)
        return [ReadyRange(low, high, redelivered=False) for low, high in ready]

    def _ready_above(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what is ready of `[start, end)`, none of it below the cursor."""
        if start >= end:
            return []
        if self._holes is not None:
            return self._holes.unsettled_ranges(start, end)
        return [(start, end)]
