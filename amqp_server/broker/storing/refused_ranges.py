"""Messages that a queue accepted and then refused (`basic.nack`); it must not deliver them.

Their publishers got the nack and publish them again. A message that a consumer already has cannot
be recalled: the consumer settles it, or it is requeued like any other.
"""

from __future__ import annotations

from amqp_server.broker.queue_part import QueuePart


class RefusedRanges(QueuePart):
    """Removes refused messages from one queue.

    Args:
        queue: Queue whose ready messages are removed.
    """

    __slots__ = ()

    def refuse_waiting(self) -> None:
        """Refuse the unsafe messages of everything that waits for the queue's disk."""
        for waiter in tuple(self._queue.waiting_confirms):
            waiter.refuse_confirms(self._queue)

    def add(self, start: int, end: int) -> None:
        """Settle those messages of `[start, end)` that no consumer has."""
        if not self._queue.is_deleted:
            for low, high in self._take(start, end):
                self._queue.settle(low, high)

    def _take(self, start: int, end: int) -> list[tuple[int, int]]:
        """Remove from the ready order, and return, what no consumer of `[start, end)` has."""
        queue = self._queue
        if queue.is_stream:
            # Visible messages stay, or consumers of the stream would see different messages.
            start = max(start, queue.visible_end)
            return queue.settlement.unsettled_ranges(start, max(start, end))
        return [(taken.start, taken.end) for taken in queue.ready.take_range(start, end)]
