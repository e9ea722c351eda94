"""Messages that a queue took in and then had to refuse: they are not delivered any more.

Their publishers were told so, and publish them again. What a consumer has already cannot be taken
back: that is settled by the consumer, or comes again as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue


class RefusedRanges:
    """Takes the refused messages out of one queue.

    Args:
        queue: Whose ready messages they are.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def refuse_waiting(self) -> None:
        """Let everybody who waits for the queue's disk give up what is not safe there."""
        for waiter in tuple(self._queue.waiting_confirms):
            waiter.refuse_confirms(self._queue)

    def add(self, start: int, end: int) -> None:
        """Take `[start, end)` out of the queue, as far as nobody has it."""
        if not self._queue.is_deleted:
            for low, high in self._take(start, end):
                self._queue.settle(low, high)

    def _take(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what of `[start, end)` nobody has, or can have any more."""
        queue = self._queue
        if queue.is_stream:
            # What can be seen stays, or not everybody would see the same.
            start = max(start, queue.visible_end)
            return queue.settlement.unsettled_ranges(start, max(start, end))
        return [(taken.start, taken.end) for taken in queue.ready.take_range(start, end)]
