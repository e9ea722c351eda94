"""A subscription: a position in a queue's log, and the consumers served from there.

Subscriptions do not change the queue's messages. So each has its own order of ready messages and
its own consumers, like a queue; the store is the queue's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
from amqp_server.broker.consuming.dispatch import dispatch
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.storing.stamped_run import StampedRun
from amqp_server.broker.storing.store_reader import StoreReader
from amqp_server.broker.subscriptions.readable_queue import ReadableQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.source import Delivered
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.turn import Turn


class SubscriptionList(Protocol):
    """The subscriptions to one queue, as each of them sees it."""

    def add(self, subscription: Subscription) -> None:
        """Add a subscription that gets its first consumer."""

    def set_aside(self, subscription: Subscription) -> None:
        """Remove a subscription that continues without consumers; `add` may add it again."""

    def remove(self, subscription: Subscription) -> None:
        """End and remove a subscription."""


class SubscribedQueue(ReadableQueue, Protocol):
    """A queue, as its subscriptions see it."""

    @property
    def subscriptions(self) -> SubscriptionList:
        """Subscriptions that have consumers."""

    def mark_changed(self) -> None:
        """Mark the queue as changed: what is shown of it has changed."""


class Subscription:
    """One consumer's own way through a log. The event loop owns it; it is a `Source`.

    Acks and rejects restore credit and change nothing: no message is delivered twice.

    Args:
        queue: Queue whose log it reads.
        turn: Turn at whose end it delivers.
        start: First offset to deliver; may be above the end of the log.

    Attributes:
        is_counted: Whether its consumers count as consumers of the queue.
        queue: Queue whose log it reads.
        consumers: Consumers that it serves.
        ready: Visible messages that are still to be delivered.
        is_deleted: Whether it has ended.
    """

    is_counted = True

    def __init__(self, queue: SubscribedQueue, turn: Turn, start: int) -> None:
        self.queue = queue
        self.consumers = ConsumerRotation()
        self.ready = FifoOrder(start)
        self.is_deleted = False
        self._turn = turn
        self._reader = StoreReader(queue.store, self.wake, self.lost)

    def wake(self) -> None:
        """Deliver at the end of the turn: there may be more messages or more credit."""
        if len(self.consumers):
            self._turn.mark(self, self.consumers.first.channel.client.task_queue)

    def on_credit_restored(self) -> None:
        """Deliver at the end of the turn: a consumer can take more."""
        self.wake()

    def run_turn(self) -> None:
        """Deliver visible messages to consumers with credit."""
        if self.is_deleted:
            return
        self.queue.mark_changed()
        self.ready.extend(max(self.ready.end, self.queue.visible_end))
        if self.queue.is_paused and self.is_counted:
            return
        consumer = self._serve()
        if consumer is not None:
            self._turn.mark(self, consumer.channel.client.task_queue)

    def _serve(self) -> Consumer | None:
        """Deliver ready messages; return a consumer for which there is more to do at once."""
        return dispatch(self, self._turn.time_slice) if len(self.ready) else None

    def read_run(self, start: int, end: int) -> Messages:
        """Return the messages from `start` on that are in memory, at most up to `end`."""
        first, end = self.queue.readable_range(start, end)
        if first > start:
            self.lost(start, first)
            self.wake()
            return []
        return self._reader.read_run(start, end)

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages with their offsets."""
        del redelivered
        return StampedRun(messages, start)

    def begin_at(self, start: int) -> None:
        """Skip to `start`, if the position is below: earlier messages are gone."""
        self.ready.extend(max(self.ready.end, start))
        self.ready.take_range(0, start)

    def lost(self, start: int, end: int) -> None:
        """Skip offsets that the log does not have any more."""
        self.ready.take_range(start, end)

    def settle(self, start: int, end: int) -> None:
        """Change nothing: the queue's settlement is not affected."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Change nothing: the queue's settlement is not affected."""

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Change nothing: no message is delivered twice."""

    def begin_work(self) -> None:
        """Change nothing: no message is delivered twice."""

    def end_work(self) -> None:
        """Change nothing: no message is delivered twice."""

    def add_consumer(self, consumer: Consumer) -> None:
        """Start to serve a consumer, from the end of this turn on."""
        if not len(self.consumers):
            self.queue.subscriptions.add(self)
        self.consumers.add(consumer)
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Stop serving a consumer; the subscription ends with the last. Never deletes the queue."""
        self.consumers.remove(consumer)
        self.queue.mark_changed()
        if not len(self.consumers):
            self.queue.subscriptions.remove(self)
        return False

    def stop(self) -> None:
        """Stop all deliveries."""
        self.is_deleted = True
        self._reader.close()
