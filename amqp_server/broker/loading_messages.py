"""The unsettled messages that a start found in a queue, until all of them are ready.

If the queue's rules need attributes of each message (priorities, lifetimes, delays), a worker reads
them after the start. Until it has read all of them, the queue accepts messages, but delivers and
expires none: the first message may be one that is still to be read. These messages count as ready
wherever messages are counted, and a purge includes them. Messages that were delivered before the
start are ready with their redelivered flags.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_server.broker.storing.window_reader import wake
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.queue_part import QueuePort
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from amqp_server.broker.rules.unloaded_attributes import UnloadedAttributes
    from amqp_server.broker.storing.opened_log import OpenedLog

_NOTHING_DELIVERED: Final = Settlement()


class LoadingMessages:
    """The recovered messages of one queue that are not ready yet. The event loop owns it.

    Args:
        queue: Queue with its settlement and order; nothing is ready in it yet.
        opened: Log of the queue, and what its checkpoint says about it.
        attributes: Attributes of the queue's messages; while some are still to be read, they
            start at the end of the log.

    Attributes:
        count: Messages that are not ready yet.
        unread: Attributes that a worker still has to read; None when all are read.
        is_loading: Whether the queue may not deliver or expire messages yet.
        delivered_end: Offset below which every delivered message is, except those of
            `redelivered_ranges`.
    """

    def __init__(self, queue: QueuePort, opened: OpenedLog, attributes: MessageAttributes) -> None:
        self.unread: UnloadedAttributes | None = opened.unread
        self.is_loading = opened.unread is not None
        self.delivered_end = opened.delivered_watermark
        self._attributes = attributes
        # The watermark means nothing in an order other than by offset; there the runs are known.
        self._requeued = [(start, stop) for start, stop, _ in opened.redeliveries]
        self._delivered = Settlement(opened.delivered_watermark, self._requeued)
        end = opened.log.log_end_offset
        self._ranges = deque(queue.settlement.unsettled_ranges(opened.ack_floor, end))
        self.count = sum(stop - start for start, stop in self._ranges)
        self._waiters: list[asyncio.Future[None]] = []
        self._is_abandoned = False
        if self.unread is None:
            self.make_ready(queue.ready, self.count)
            self._forget()

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return ranges that were delivered before, beside those below the watermark."""
        return list(self._requeued)

    def take_over_attributes(self) -> None:
        """Move the attributes that were read to the queue; then messages can be made ready."""
        if self.unread is not None:
            self._attributes.put_before(self.unread.attributes)

    def make_ready(self, order: ReadyOrder, count: int) -> bool:
        """Make the next `count` messages ready in a queue's order; return whether more are left."""
        while self._ranges and count > 0:
            start, stop = self._ranges.popleft()
            end = min(start + count, stop)
            if end < stop:
                self._ranges.appendleft((end, stop))
            requeue_recovered(order, start, end, self._delivered)
            self.count -= end - start
            count -= end - start
        return bool(self._ranges)

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of `[start, end)` not ready yet, ascending and disjoint. O(ranges)."""
        return [
            (max(start, low), min(end, high))
            for low, high in self._ranges
            if low < end and start < high
        ]

    def purge(self, queue: QueuePort) -> Iterator[int]:
        """Settle the messages that are not ready yet, a range in each step; return how many."""
        while self._ranges and not queue.is_deleted:
            start, end = self._ranges.popleft()
            queue.settle(start, end)
            self.count -= end - start
            yield end - start

    def finish(self, queue: QueuePort) -> None:
        """Let the queue deliver: all messages are ready."""
        self.unread = None
        self.is_loading = False
        self._forget()
        queue.wake()
        wake(self._waiters)

    def abandon(self) -> None:
        """Stop loading and wake all waiters: the queue is deleted, or the server is stopping."""
        self._is_abandoned = True
        wake(self._waiters)

    async def until_loaded(self) -> None:
        """Return when loading has ended; at once if there is nothing to load."""
        if self.is_loading and not self._is_abandoned:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _forget(self) -> None:
        """Discard the recovered state, which the queue's order has now."""
        self._requeued = []
        self._delivered = _NOTHING_DELIVERED


def requeue_recovered(order: ReadyOrder, start: int, end: int, delivered: Settlement) -> None:
    """Make recovered messages ready; those that were delivered before are marked redelivered.

    Args:
        order: Order whose end is the end of the log.
        start: First offset; all from here to `end` are unsettled and not ready.
        end: Offset after the last one.
        delivered: Contains as settled the offsets that may have been delivered before.
    """
    position = start
    for low, high in delivered.unsettled_ranges(start, end):
        if position < low:
            order.requeue(position, low)
        order.requeue(low, high, redelivered=False)
        position = high
    if position < end:
        order.requeue(position, end)
