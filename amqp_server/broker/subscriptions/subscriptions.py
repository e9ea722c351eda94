"""All subscriptions to one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.browsing import BrowseSubscription
from amqp_server.broker.subscriptions.filtered_subscription import FilteredSubscription
from amqp_server.broker.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.subscriptions.stream_filter import StreamFilter
    from amqp_server.broker.subscriptions.subscription import SubscribedQueue
    from amqp_server.broker.turn import Turn


class Subscriptions:
    """The subscriptions of one queue. The event loop owns it.

    Args:
        turn: Turn at whose end they deliver.
    """

    __slots__ = ("_all", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        # A dict keeps the order.
        self._all: dict[Subscription, None] = {}

    def __len__(self) -> int:
        """Return the number of subscriptions."""
        return len(self._all)

    def __iter__(self) -> Iterator[Subscription]:
        """Iterate over a copy, the oldest first."""
        return iter(tuple(self._all))

    def consumers(self) -> list[Consumer]:
        """Return the consumers of all subscriptions."""
        return [consumer for subscription in self._all for consumer in subscription.consumers]

    @property
    def consumer_count(self) -> int:
        """Number of consumers, without those that browse."""
        return sum(len(each.consumers) for each in self._all if each.is_counted)

    def browse(self, queue: SubscribedQueue, start: int) -> Subscription:
        """Return a new subscription for a consumer that browses from the offset `start` on.

        It is added to the queue together with its first consumer.
        """
        return BrowseSubscription(queue, self._turn, start)

    def begin(
        self, queue: SubscribedQueue, start: int, wanted: StreamFilter | None = None
    ) -> Subscription:
        """Return a new subscription; it is added to the queue together with its first consumer.

        Args:
            queue: Queue whose log it reads.
            start: First offset to deliver.
            wanted: Filter of the messages; None delivers all.
        """
        if wanted is None:
            return Subscription(queue, self._turn, start)
        return FilteredSubscription(queue, self._turn, start, wanted)

    def add(self, subscription: Subscription) -> None:
        """Add a subscription that gets its first consumer."""
        self._all[subscription] = None

    def set_aside(self, subscription: Subscription) -> None:
        """Remove a subscription that continues without consumers; `add` may add it again."""
        del self._all[subscription]

    def remove(self, subscription: Subscription) -> None:
        """End and remove a subscription."""
        subscription.stop()
        del self._all[subscription]

    def begin_at(self, start: int) -> None:
        """Move the subscriptions below `start` to it: earlier messages are gone."""
        for subscription in self._all:
            subscription.begin_at(start)

    def wake(self) -> None:
        """Wake all subscriptions: more messages may be visible."""
        for subscription in self._all:
            subscription.wake()

    def stop(self) -> None:
        """Stop all deliveries: the queue is deleted, or the server is stopping."""
        for subscription in self._all:
            subscription.stop()
