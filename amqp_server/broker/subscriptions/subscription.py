"""A subscription: a place in a queue's log, and whoever is served from there on.

The queue itself is not touched: its messages stay what they are. So each subscription has the
parts of a queue that consumers meet, an order of what comes next and the consumers; the store is
the queue's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
from amqp_server.broker.consuming.dispatch import dispatch
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.storing.stamped_run import StampedRun
from amqp_server.broker.storing.store_reader import StoreReader
from offsets.delivery_counters import DeliveryCounters

if TYPE_CHECKING:
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.delivered import Delivered
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.turn import Turn


class Subscription:
    """One consumer's own way through a log. The event loop owns it; it is a `Source`.

    Answers give credit and change nothing: what was delivered once does not come again.

    Args:
        queue: Whose log.
        turn: Where it asks for its turn.
        start: The first offset that it delivers; may be behind the end of the log.

    Attributes:
        is_counted: Whether its consumers are consumers of the queue for those who ask.
        queue: See above.
        consumers: Those that it serves.
        ready: What is still to be delivered, as far as it can be seen.
        counters: Counts what it delivers; the queue's, as far as it is counted at all.
        is_deleted: Whether it is over.
    """

    is_counted = True

    def __init__(self, queue: Queue, turn: Turn, start: int) -> None:
        self.queue = queue
        self.consumers = ConsumerRotation()
        self.ready = FifoOrder(start)
        self.counters = queue.counters if self.is_counted else DeliveryCounters()
        self.is_deleted = False
        self._turn = turn
        self._reader = StoreReader(queue.store, self.wake, self.lost)

    def wake(self) -> None:
        """Dispatch at the end of the turn: there may be more, or a consumer can take more."""
        if len(self.consumers):
            self._turn.schedule_low_priority(self)

    def run_turn(self) -> None:
        """Deliver what can be seen and taken."""
        if self.is_deleted:
            return
        self.ready.extend(max(self.ready.end, self.queue.visible_end))
        if self._serve():
            self._turn.schedule_low_priority(self)

    def _serve(self) -> bool:
        """Deliver what may be delivered now; return whether there is more to do at once."""
        return len(self.ready) > 0 and dispatch(self)

    def read_run(self, start: int, end: int) -> Messages:
        """Return what is at hand of `[start, end)`."""
        settlement = self.queue.settlement
        if settlement.settled_above_floor and self.queue.is_stream:
            # Refused when the disk was full, or damaged: nobody gets it.
            there = settlement.unsettled_ranges(start, end)
            first = there[0][0] if there else end
            if first > start:
                self.lost(start, first)
                self.wake()
                return []
            end = there[0][1]
        return self._reader.read_run(start, end)

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages with their offsets."""
        del redelivered
        return StampedRun(messages, start)

    def begin_at(self, start: int) -> None:
        """Go on at `start`, if it is not there yet: what is below it is gone."""
        self.ready.extend(max(self.ready.end, start))
        self.ready.take_range(0, start)

    def lost(self, start: int, end: int) -> None:
        """Go on behind offsets that are not in the log any more."""
        self.ready.take_range(start, end)

    def settle(self, start: int, end: int) -> None:
        """Change nothing."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Change nothing."""

    def requeue(self, start: int, end: int) -> None:
        """Change nothing."""

    def add_consumer(self, consumer: Consumer) -> None:
        """Begin to serve a consumer at the end of the turn."""
        if not len(self.consumers):
            self.queue.subscriptions.add(self)
        self.consumers.add(consumer)
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Stop serving a consumer; without any the subscription is over. Never ends the queue."""
        self.consumers.remove(consumer)
        if not len(self.consumers):
            self.queue.subscriptions.remove(self)
        return False

    def stop(self) -> None:
        """Deliver nothing any more."""
        self.is_deleted = True
        self._reader.close()
