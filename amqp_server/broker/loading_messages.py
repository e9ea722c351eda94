"""What a start found unsettled in a queue, until all of it is ready.

Where rules have to know something of each message (priorities, lifetimes, delays), that is read
after the start, off the loop. Until all of it is known the queue takes messages, but delivers
none and lets none expire: which goes first depends on those that nobody has looked at. They
count as ready wherever messages are counted, and a purge has them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from amqp_server.broker.orders.recovered import requeue_recovered
from amqp_server.broker.storing.window_reader import wake
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from amqp_server.broker.rules.unloaded_attributes import UnloadedAttributes
    from amqp_server.broker.storing.storage import OpenedLog


class LoadingMessages:
    """The recovered messages of one queue that are not ready yet. The event loop owns it.

    Args:
        queue: Its settlement and order are there; nothing is ready.
        opened: What is known of its log.
        attributes: What its rules know of its messages; from the log end on while some are unread.

    Attributes:
        count: Messages that are not ready yet.
        unread: What a worker has to read before they can be; None when nothing.
        delivered_end: All that were ever delivered are below it, or in `marked`.
    """

    def __init__(self, queue: Queue, opened: OpenedLog, attributes: MessageAttributes) -> None:
        self.unread: UnloadedAttributes | None = opened.unread
        self.delivered_end = opened.delivered_watermark
        self._queue = queue
        self._attributes = attributes
        # A watermark says nothing of an order that is not by offset: its runs are known.
        self._came_back = [(start, stop) for start, stop, _ in opened.redeliveries]
        self._delivered = Settlement(opened.delivered_watermark, self._came_back)
        end = opened.log.log_end_offset
        self._ranges = deque(queue.settlement.unsettled_ranges(opened.ack_floor, end))
        self.count = sum(stop - start for start, stop in self._ranges)
        self._waiters: list[asyncio.Future[None]] = []
        self._is_abandoned = False
        if self.unread is None:
            self.make_ready(self.count)
            self._forget()

    @property
    def is_loading(self) -> bool:
        """Whether nothing may be delivered yet, nor expire."""
        return self.unread is not None

    def marked(self) -> list[tuple[int, int]]:
        """Return what was delivered before, beside what is below the watermark."""
        return list(self._came_back)

    def take_over_attributes(self) -> None:
        """Take what was read; behind it, all can be made ready."""
        if self.unread is not None:
            self._attributes.put_before(self.unread.attributes)

    def make_ready(self, count: int) -> bool:
        """Make the next `count` messages ready; return whether there are more."""
        while self._ranges and count > 0:
            start, stop = self._ranges.popleft()
            end = min(start + count, stop)
            if end < stop:
                self._ranges.appendleft((end, stop))
            requeue_recovered(self._queue.ready, start, end, self._delivered)
            self.count -= end - start
            count -= end - start
        return bool(self._ranges)

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what of `[start, end)` is not ready yet, ascending and disjoint. O(ranges)."""
        return [
            (max(start, low), min(end, high))
            for low, high in self._ranges
            if low < end and start < high
        ]

    def purge(self) -> int:
        """Settle what is not ready yet; return how many messages that was."""
        purged, self.count = self.count, 0
        while self._ranges:
            self._queue.settle(*self._ranges.popleft())
        return purged

    def finish(self) -> None:
        """Let the queue go on: all is ready."""
        self.unread = None
        self._forget()
        self._queue.wake()
        wake(self._waiters)

    def abandon(self) -> None:
        """Let nobody wait any more: the queue is deleted, or the server is stopping."""
        self._is_abandoned = True
        wake(self._waiters)

    async def until_loaded(self) -> None:
        """Return when nothing has to be read any more, or is; at once if that is so."""
        if self.is_loading and not self._is_abandoned:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _forget(self) -> None:
        """Let go of what was known from before: the queue's order has it now."""
        self._came_back, self._delivered = [], Settlement()
