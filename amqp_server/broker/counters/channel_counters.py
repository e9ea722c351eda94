"""The counters of one channel: a pair for each exchange and each queue that it works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.counters.delivery_counters import DeliveryCounters
from amqp_server.broker.counters.delivery_pair import DeliveryPair
from amqp_server.broker.counters.publish_counters import PublishCounters
from amqp_server.broker.counters.publish_pair import PublishPair

if TYPE_CHECKING:
    from amqp_server.broker.counters.counted_channels import CountedChannels
    from amqp_server.broker.counters.owners import (
        CountedExchange,
        CountedQueue,
        CountedVhost,
    )

UNUSED_MAX: Final = 64
"""Pairs with deleted exchanges and queues that a channel may keep, if it has no more others."""


class ChannelCounters:
    """What one channel has published and got. The event loop owns it.

    The channel counts in the pairs alone. The sums are brought up to date by `fold`: by each look
    of the census, by who reads them, and when the channel ends.

    Args:
        connection: Name of the channel's connection.
        number: Number of the channel.
        virtual_host: Virtual host of the channel.
        counted: The channels whose sums are to be brought up to date.

    Attributes:
        connection: As given.
        number: As given.
        virtual_host: As given.
        publishes: Sum of the publishes.
        deliveries: Sum of the deliveries.
        publish_pairs: Publishes by exchange.
        delivery_pairs: Deliveries by queue.
        has_confirms: Whether the channel confirms what is published from now on.
    """

    __slots__ = (
        "_browsed",
        "_counted",
        "_kept_max",
        "connection",
        "deliveries",
        "delivery_pairs",
        "has_confirms",
        "number",
        "publish_pairs",
        "publishes",
        "virtual_host",
    )

    def __init__(
        self,
        connection: str,
        number: int,
        virtual_host: CountedVhost,
        counted: CountedChannels,
    ) -> None:
        self.connection = connection
        self.number = number
        self.virtual_host = virtual_host
        self.publishes = PublishCounters()
        self.deliveries = DeliveryCounters()
        self.publish_pairs: dict[CountedExchange, PublishPair] = {}
        self.delivery_pairs: dict[CountedQueue, DeliveryPair] = {}
        self.has_confirms = False
        self._browsed: DeliveryPair | None = None
        self._counted = counted
        self._kept_max = UNUSED_MAX

    def publishes_to(self, exchange: CountedExchange) -> PublishPair:
        """Return the counters of publishes to an exchange."""
        pair = self.publish_pairs.get(exchange)
        if pair is None:
            self._make_room()
            pair = self.publish_pairs[exchange] = PublishPair(self, exchange)
        return pair

    def deliveries_of(self, queue: CountedQueue) -> DeliveryPair:
        """Return the counters of deliveries of a queue."""
        pair = self.delivery_pairs.get(queue)
        if pair is None:
            self._make_room()
            pair = self.delivery_pairs[queue] = DeliveryPair(self, queue)
            queue.add_delivery_pair(pair)
        return pair

    @property
    def browsed(self) -> DeliveryPair:
        """Counters of deliveries to browsers, which the queues do not count."""
        if self._browsed is None:
            self._make_room()
            self._browsed = DeliveryPair(self, None)
        return self._browsed

    def begin_confirms(self) -> None:
        """Count publishes from now on as ones that await a confirm."""
        self.fold()
        self.has_confirms = True

    def fold(self) -> None:
        """Bring the sums of the channel, and of all that it works with, up to date."""
        for publishes in self.publish_pairs.values():
            publishes.fold()
        for deliveries in self.delivery_pairs.values():
            deliveries.fold()
        if self._browsed is not None:
            self._browsed.fold()

    def forget_unused(self) -> None:
        """Forget the pairs with what is deleted; what they have counted is in the sums."""
        for exchange in [each for each in self.publish_pairs if each.is_deleted]:
            publishes = self.publish_pairs.pop(exchange)
            publishes.fold()
            publishes.is_gone = True
            self._counted.told.end(publishes)
        for queue in [each for each in self.delivery_pairs if each.is_deleted]:
            self._forget_queue(queue)

    def end(self) -> None:
        """Add everything to the sums: the channel has ended."""
        self.fold()
        for publishes in self.publish_pairs.values():
            self._counted.told.end(publishes)
        self.publish_pairs = {}
        while self.delivery_pairs:
            self._forget_queue(next(iter(self.delivery_pairs)))
        self._browsed = None
        self._counted.remove(self)

    def _forget_queue(self, queue: CountedQueue) -> None:
        deliveries = self.delivery_pairs.pop(queue)
        deliveries.fold()
        queue.remove_delivery_pair(deliveries)
        self._counted.told.end(deliveries)

    def _make_room(self) -> None:
        """Prepare for one more pair."""
        self._counted.add(self)
        if len(self.publish_pairs) + len(self.delivery_pairs) >= self._kept_max:
            self.forget_unused()
            left = len(self.publish_pairs) + len(self.delivery_pairs)
            self._kept_max = 2 * left + UNUSED_MAX
