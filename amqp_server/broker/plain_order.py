"""The order of a plain queue: a cursor, and ranges that came back.

A queue that nobody disturbs is one number: everything from the cursor on is ready. What is
requeued returns to its own place as a range below the cursor, so the lowest range always
goes first and the order of publishing is kept. What leaves from the middle moves the cursor
behind it, and what was before it becomes a range as well.
"""

from __future__ import annotations

from amqp_server.broker.ready_ranges import ReadyRange, ReadyRanges


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

    def __len__(self) -> int:
        """Return how many messages are ready."""
        return self.end - self.cursor + len(self._below)

    @property
    def delivered_end(self) -> int:
        """All offsets that were ever delivered are below this one. O(ranges)."""
        # The lowest goes first, so what was never delivered is above all that was.
        undelivered = self._below.first_undelivered()
        return self.cursor if undelivered is None else undelivered

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        self.end = end

    def peek(self) -> ReadyRange | None:
        """Return the range that goes next, or None when nothing is ready. O(1)."""
        if self._below:
            return self._below.first()
        if self.cursor < self.end:
            return ReadyRange(self.cursor, self.end, redelivered=False)
        return None

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must hold as many."""
        if self._below:
            return self._below.take(count)
        assert 0 < count <= self.end - self.cursor, "took more than is ready"
        taken = ReadyRange(self.cursor, self.cursor + count, redelivered=False)
        self.cursor += count
        return taken

    def give_back(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, below the cursor, to its place."""
        assert start < end <= self.cursor, "gave back what was never taken"
        self._below.add(start, end, redelivered=redelivered)

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready, in order (a purge)."""
        taken = self._below.take_all()
        if self.cursor < self.end:
            taken.append(ReadyRange(self.cursor, self.end, redelivered=False))
            self.cursor = self.end
        return taken

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return what is ready in `[start, end)`, in order."""
        taken = self._below.cut(start, end)
        low, high = max(start, self.cursor), min(end, self.end)
        if low < high:
            if self.cursor < low:
                self._below.add(self.cursor, low, redelivered=False)
            self.cursor = high
            taken.append(ReadyRange(low, high, redelivered=False))
        return taken
