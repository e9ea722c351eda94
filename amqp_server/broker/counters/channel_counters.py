"""The counters of one channel: a pair for each exchange and each queue that it works with."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from amqp_server.broker.counters.delivery_counters import DeliveryCounters
from amqp_server.broker.counters.delivery_pair import DeliveryPair
from amqp_server.broker.counters.publish_counters import PublishCounters
from amqp_server.broker.counters.publish_pair import PublishPair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.counters.counted_channels import CountedChannels
    from amqp_server.broker.counters.owners import (
        CountedExchange,
        CountedQueue,
        CountedVhost,
    )

    Pair = PublishPair | DeliveryPair

UNUSED_MAX: Final = 64
"""Pairs with deleted exchanges and queues that a channel may keep, if it has no more others."""
STEP_PAIRS = 64
"""Pairs that are brought up to date, or forgotten, in one step."""
LOOKED_AT: Final = 4
"""Pairs that a new one makes a channel look at, while it searches for unused ones."""


class ChannelCounters:
    """What one channel has published and got. The event loop owns it.

    The channel counts in the pairs alone. The sums are brought up to date by `fold`: by each poll
    of the change feed, by other readers of the sums, and when the channel ends.

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
        has_ended: Whether the channel has ended; what counts later has to be folded.
    """

    __slots__ = (
        "_browsed",
        "_counted",
        "_kept_max",
        "_searched",
        "connection",
        "deliveries",
        "delivery_pairs",
        "has_confirms",
        "has_ended",
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
        self.has_confirms = self.has_ended = False
        self._browsed: DeliveryPair | None = None
        self._counted = counted
        self._kept_max = UNUSED_MAX
        # Pairs that are still to be looked at by the search that is under way.
        self._searched: Iterator[Pair] | None = None

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
            self._counted.add(self)
            self._browsed = DeliveryPair(self, None)
        return self._browsed

    def begin_confirms(self) -> Iterator[None]:
        """Count publishes from now on as ones that await a confirm.

        Returns:
            The steps of this; the channel publishes nothing before all are taken.
        """
        for number, publishes in enumerate(tuple(self.publish_pairs.values()), 1):
            publishes.fold()
            if number % STEP_PAIRS == 0:
                yield
        self.has_confirms = True

    def fold(self) -> Iterator[None]:
        """Bring the sums of the channel, and of all that it works with, up to date, in steps.

        Pairs with what is deleted are forgotten; what they have counted is in the sums.
        """
        for number, pair in enumerate(self._all_pairs(), 1):
            pair.fold()
            if pair.is_unused:
                self.forget(pair)
            if number % STEP_PAIRS == 0:
                yield
        if self._browsed is not None:
            self._browsed.fold()
        self._end_search()

    def end(self) -> Iterator[None]:
        """Add everything to the sums, in steps: the channel has ended."""
        self.has_ended = True
        # What is left of an operation may count for more pairs between two steps.
        while self.publish_pairs or self.delivery_pairs:
            for number, pair in enumerate(self._all_pairs(), 1):
                self.forget(pair)
                if number % STEP_PAIRS == 0:
                    yield
        if self._browsed is not None:
            self._browsed.fold()
            self._browsed = None
        self._searched = None
        self._counted.remove(self)

    def forget(self, pair: Pair) -> None:
        """Forget a pair, unless that was done before; what it has counted is in the sums."""
        pair.fold()
        if isinstance(pair, PublishPair):
            exchange = pair.exchange
            if exchange is None:
                return
            del self.publish_pairs[exchange]
            # Whoever publishes takes another pair; confirms may still come.
            pair.exchange = None
        else:
            queue = pair.queue
            if queue is None or self.delivery_pairs.get(queue) is not pair:
                return
            del self.delivery_pairs[queue]
            queue.remove_delivery_pair(pair)
        self._counted.reported.end(pair)

    def _all_pairs(self) -> Iterator[Pair]:
        """Iterate over the pairs that there are now; some may be forgotten during the loop."""
        return chain(tuple(self.publish_pairs.values()), tuple(self.delivery_pairs.values()))

    def _make_room(self) -> None:
        """Prepare for one more pair: search for unused ones, some pairs each time."""
        self._counted.add(self)
        if self._searched is None:
            if len(self.publish_pairs) + len(self.delivery_pairs) < self._kept_max:
                return
            self._searched = self._all_pairs()
        some = tuple(islice(self._searched, LOOKED_AT))
        for pair in some:
            if pair.is_unused:
                self.forget(pair)
        if len(some) < LOOKED_AT:
            self._end_search()

    def _end_search(self) -> None:
        """Search again when there are many more pairs than now."""
        self._searched = None
        left = len(self.publish_pairs) + len(self.delivery_pairs)
        self._kept_max = 2 * left + UNUSED_MAX
