"""Messages that leave a queue because their segment is to go, wanted or not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.transfers.deaths import EXPIRED

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

logger = logging.getLogger(__name__)


class ForcedRemoval:
    """Drops what is unsettled below an offset. Belongs to one queue.

    What is ready goes at once: as expired into the dead-letter exchange if the queue has one,
    else nowhere. What a consumer has is settled when all of that has arrived; what the consumer
    answers then changes nothing any more.

    Args:
        queue: Whose messages.

    Attributes:
        end: No message below this offset is ever ready again.
        dropped_count: How many were dropped, since the server started.
    """

    def __init__(self, queue: Queue) -> None:
        self.end = 0
        self.dropped_count = 0
        self._queue = queue

    def drop_below(self, end: int) -> None:
        """Drop all that is ready below `end`; nothing yet while the queue's loading is read.

        What a start has found is not ready before that: it would be settled and ready as well,
        and never become a dead letter.
        """
        queue = self._queue
        # Of what a stop settles after the last checkpoint, all would come back.
        if queue.loading.is_loading or queue.is_winding_up:
            return
        self.end = max(self.end, end)
        floor = queue.settlement.ack_floor
        if floor >= self.end:
            return
        for taken in queue.ready.take_range(floor, self.end):
            queue.drop(taken.start, taken.end, EXPIRED)
            self._count(taken.start, taken.end)
        if queue.forwarder is not None and queue.forwarder.reach_below(self.end):
            return
        for start, stop in queue.settlement.unsettled_ranges(floor, self.end):
            queue.settle(start, stop)
            self._count(start, stop)

    def drop_returned(self, start: int, end: int) -> int:
        """Settle what comes back of `[start, end)` too late; return where the rest begins."""
        stop = min(end, self.end)
        if start >= stop:
            return start
        self._queue.settle(start, stop)
        return stop

    def _count(self, start: int, end: int) -> None:
        self.dropped_count += end - start
        logger.warning(
            "unsettled messages removed queue=%s vhost=%s from=%d to=%d",
            self._queue.name,
            self._queue.virtual_host.name,
            start,
            end,
        )
