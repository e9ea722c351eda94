"""All subscriptions to one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.browsing import BrowseSubscription
from amqp_server.broker.subscriptions.filtered_subscription import FilteredSubscription
from amqp_server.broker.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.stream_filter import StreamFilter
    from amqp_server.broker.turn import Turn


class Subscriptions:
    """Those of one queue. The event loop owns it.

    Args:
        queue: Whose log they read.
        turn: Where they ask for their turns.
    """

    def __init__(self, queue: Queue, turn: Turn) -> None:
        self._queue = queue
        self._turn = turn
        # A dict, for its order.
        self._all: dict[Subscription, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def __iter__(self) -> Iterator[Subscription]:
        """Iterate over a copy, the oldest first."""
        return iter(tuple(self._all))

    def consumers(self) -> list[Consumer]:
        """Return the consumers of all of them."""
        return [consumer for subscription in self._all for consumer in subscription.consumers]

    @property
    def consumer_count(self) -> int:
        """How many consumers there are, without those that only look."""
        return sum(len(each.consumers) for each in self._all if each.is_counted)

    def browse(self, start: int) -> Subscription:
        """Return a new one for a consumer that looks at all from the offset `start` on.

        It is one of these as soon as it has the consumer.
        """
        return BrowseSubscription(self._queue, self._turn, start)

    def begin(self, start: int, wanted: StreamFilter | None = None) -> Subscription:
        """Return a new one for a consumer; it is one of these as soon as it has the consumer.

        Args:
            start: It is to have all from this offset on.
            wanted: Or as much of it as this lets through.
        """
        if wanted is None:
            return Subscription(self._queue, self._turn, start)
        return FilteredSubscription(self._queue, self._turn, start, wanted)

    def add(self, subscription: Subscription) -> None:
        """Take in one that gets its first consumer."""
        self._all[subscription] = None

    def set_aside(self, subscription: Subscription) -> None:
        """Ask nothing of one that goes on without a consumer; `add` takes it in again."""
        del self._all[subscription]

    def remove(self, subscription: Subscription) -> None:
        """End one."""
        subscription.stop()
        del self._all[subscription]

    def begin_at(self, start: int) -> None:
        """Go on at `start` with those that are not there yet: what is below it is gone."""
        for subscription in self._all:
            subscription.begin_at(start)

    def wake(self) -> None:
        """Let all look again: there may be more to see."""
        for subscription in self._all:
            subscription.wake()

    def stop(self) -> None:
        """Let nothing be delivered any more: the queue is deleted, or the server is stopping."""
        for subscription in self._all:
            subscription.stop()
