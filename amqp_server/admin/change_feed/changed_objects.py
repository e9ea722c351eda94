"""The change feed: the objects of the broker that have changed since a reader polled last.

A queue records its own changes, so an idle queue costs nothing. Objects of other kinds are compared
with their last rows. Each message counts once, for the pair of a channel and an exchange or a
queue. A poll first brings these sums up to date: all rows are made of them.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from amqp_server.admin.change_feed.channel_row import (
    CHANNEL_COLUMNS,
    channel_attributes,
    channel_values,
)
from amqp_server.admin.change_feed.connection_row import (
    CONNECTION_COLUMNS,
    connection_attributes,
    connection_values,
)
from amqp_server.admin.change_feed.consumer_row import (
    CONSUMER_COLUMNS,
    consumer_attributes,
    consumer_values,
)
from amqp_server.admin.change_feed.exchange_row import (
    EXCHANGE_COLUMNS,
    exchange_attributes,
    exchange_values,
)
from amqp_server.admin.change_feed.known_objects import KnownObjects
from amqp_server.admin.change_feed.pair_rows import (
    DELIVERIES_COLUMNS,
    INCOMING_COLUMNS,
    PUBLISHES_COLUMNS,
    deliveries_attributes,
    deliveries_values,
    incoming_attributes,
    incoming_values,
    publishes_attributes,
    publishes_values,
)
from amqp_server.admin.change_feed.poll import Poll
from amqp_server.admin.change_feed.queue_row import QUEUE_COLUMNS, queue_attributes, queue_values
from amqp_server.admin.change_feed.row import reports
from amqp_server.admin.change_feed.vhost_row import VHOST_COLUMNS, vhost_attributes, vhost_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from amqp_server.admin.change_feed.row import Report
    from amqp_server.base.clock import Timer
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.changed_queues import ObservedQueue
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.connections.open_connections import Connection, OpenConnections

    Rows = Iterator[list[Any] | None]

KINDS: Final = (
    "vhosts",
    "exchanges",
    "queues",
    "connections",
    "channels",
    "consumers",
    "publishes",
    "deliveries",
    "incoming",
)
"""Kinds of objects; an object comes after the kinds of those that it belongs to."""


FORGET_SECONDS: Final = 60.0
"""Seconds without a poll after which the feed forgets what its readers know."""


class ChangedObjects:
    """The feed of the changed objects of one broker. The event loop owns it.

    Args:
        broker: Broker with the objects.
        connections: The open connections.

    Attributes:
        run: Number that differs from that of the server's other runs.
        generation: Number of the latest poll.
    """

    def __init__(self, broker: Broker, connections: OpenConnections) -> None:
        # Later runs begin later, so a number of an earlier run is below all numbers of this one.
        self.run = self.generation = time.time_ns() // 1_000_000
        self._broker = broker
        self._connections = connections
        self._queues = broker.storage.changed_queues
        self._counted = broker.storage.counted_channels
        self._vhosts: KnownObjects[VirtualHost] = KnownObjects()
        self._exchanges: KnownObjects[Exchange] = KnownObjects()
        self._known_connections: KnownObjects[Connection] = KnownObjects()
        self._channels: KnownObjects[Channel] = KnownObjects()
        self._consumers: KnownObjects[Consumer] = KnownObjects()
        self._forgetting: Timer | None = None

    @property
    def _compared(self) -> tuple[KnownObjects[Any], ...]:
        return (
            self._vhosts,
            self._exchanges,
            self._known_connections,
            self._channels,
            self._consumers,
        )

    def run_turn(self) -> None:
        """Forget what readers know: none has polled for long, and closed channels take memory."""
        self._forgetting = None
        for known in self._compared:
            known.forget_all(self.generation)

    def begin(self, since: int) -> Poll:
        """Begin a poll for a reader that knows the result of an earlier one.

        Args:
            since: Generation of that poll, or 0. If too much has gone since, or it is of another
                run, the poll reports all objects: its `since` is 0.
        """
        self.generation += 1
        self._queues.generation = self._counted.reported.generation = self.generation
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = self._broker.turn.mark_after_real(FORGET_SECONDS, self)
        known = self._compared
        lost_until = max(
            self._queues.lost_until,
            self._counted.reported.lost_until,
            *(each.lost_until for each in known),
        )
        if not self.run < since < self.generation or since <= lost_until:
            since = 0
        return Poll(self.generation, since, lambda: self.generation)

    def reports(self, poll: Poll, kinds: Collection[str]) -> Iterator[Report | None]:
        """Look at all objects of some kinds, in steps; some steps return a report.

        Args:
            poll: The poll, from `begin`.
            kinds: Some of `KINDS`.
        """
        makers: dict[str, Callable[[Poll], Iterator[Report | None]]] = {
            "vhosts": self._of_vhosts,
            "exchanges": self._of_exchanges,
            "queues": self._of_queues,
            "connections": self._of_connections,
            "channels": self._of_channels,
            "consumers": self._of_consumers,
            "publishes": self._of_publishes,
            "deliveries": self._of_deliveries,
            "incoming": self._of_incoming,
        }
        yield from self._counted.fold()
        for queue in self._queues.take(poll):
            cast("Queue", queue).fold_incoming()
            yield None
        for kind in KINDS:
            if kind in kinds:
                yield from makers[kind](poll)

    def _of_queues(self, poll: Poll) -> Iterator[Report | None]:
        rows = (
            self._queue_row(cast("Queue", queue), poll.since)
            for queue in self._queues.changed_since(poll.since)
        )
        yield from reports("queues", QUEUE_COLUMNS, rows, ())
        if poll.since:
            yield from reports(
                "queues", QUEUE_COLUMNS, iter(()), self._queues.gone_since(poll.since)
            )

    def _queue_row(self, queue: Queue, since: int) -> list[Any] | None:
        if queue.is_deleted or queue.is_hidden:
            return None
        attributes = queue_attributes(queue) if queue.attributes_in > since else None
        return [queue.number, attributes, *queue_values(queue)]

    def _of_vhosts(self, poll: Poll) -> Iterator[Report | None]:
        rows = (
            self._vhosts.see(vhost, vhost_attributes, vhost_values(vhost), poll)
            for vhost in tuple(self._broker.vhosts.values())
        )
        return _object_reports(
            "vhosts", VHOST_COLUMNS, chain(self._count_octets(), rows), self._vhosts, poll
        )

    def _count_octets(self) -> Iterator[None]:
        for connection in self._connections:
            connection.count_octets()
            yield

    def _of_exchanges(self, poll: Poll) -> Iterator[Report | None]:
        rows = (
            self._exchanges.see(
                exchange, partial(exchange_attributes, vhost=vhost), exchange_values(exchange), poll
            )
            for vhost in tuple(self._broker.vhosts.values())
            for exchange in tuple(vhost.exchanges.values())
            if not exchange.is_deleted
        )
        return _object_reports("exchanges", EXCHANGE_COLUMNS, rows, self._exchanges, poll)

    def _of_connections(self, poll: Poll) -> Iterator[Report | None]:
        known = self._known_connections
        rows = (
            known.see(each, connection_attributes, connection_values(each), poll)
            for each in self._connections
            if each.vhost
        )
        return _object_reports("connections", CONNECTION_COLUMNS, rows, known, poll)

    def _of_channels(self, poll: Poll) -> Iterator[Report | None]:
        rows = (
            self._channels.see(channel, channel_attributes, channel_values(channel), poll)
            for channel in self._open_channels()
        )
        return _object_reports("channels", CHANNEL_COLUMNS, rows, self._channels, poll)

    def _of_consumers(self, poll: Poll) -> Iterator[Report | None]:
        rows = (
            self._consumers.see(
                consumer,
                partial(consumer_attributes, channel=channel),
                consumer_values(consumer),
                poll,
            )
            for channel in self._open_channels()
            for consumer in tuple(channel.consumers.values())
            if consumer.tag in channel.consumers
        )
        return _object_reports("consumers", CONSUMER_COLUMNS, rows, self._consumers, poll)

    def _of_publishes(self, poll: Poll) -> Iterator[Report | None]:
        pairs = self._counted.reported
        rows = (
            [
                pair.number,
                publishes_attributes(channel, pair.exchange)
                if pair.known_in > poll.since
                else None,
                *publishes_values(pair),
            ]
            if pair.exchange is not None
            and not pair.is_unused
            and pairs.see(pair, poll.since, poll.found_in)
            else None
            for channel in self._counted
            for pair in tuple(channel.publish_pairs.values())
        )
        return self._pair_reports("publishes", PUBLISHES_COLUMNS, rows, poll)

    def _of_deliveries(self, poll: Poll) -> Iterator[Report | None]:
        pairs = self._counted.reported
        rows = (
            [
                pair.number,
                deliveries_attributes(channel, pair.queue) if pair.known_in > poll.since else None,
                *deliveries_values(pair),
            ]
            if pair.queue is not None
            and not pair.is_unused
            and pairs.see(pair, poll.since, poll.found_in)
            else None
            for channel in self._counted
            for pair in tuple(channel.delivery_pairs.values())
        )
        return self._pair_reports("deliveries", DELIVERIES_COLUMNS, rows, poll)

    def _of_incoming(self, poll: Poll) -> Iterator[Report | None]:
        pairs = self._counted.reported
        rows = (
            [
                pair.number,
                incoming_attributes(queue, pair.exchange) if pair.known_in > poll.since else None,
                *incoming_values(pair),
            ]
            if pair.exchange is not None
            and not pair.is_unused
            and pairs.see(pair, poll.since, poll.found_in)
            else None
            for queue in map(_as_queue, self._queues.changed_since(poll.since))
            if not (queue.is_deleted or queue.is_hidden)
            for pair in queue.incoming_pairs()
        )
        return self._pair_reports("incoming", INCOMING_COLUMNS, rows, poll)

    def _pair_reports(
        self, kind: str, columns: tuple[str, ...], rows: Rows, poll: Poll
    ) -> Iterator[Report | None]:
        """Report the rows of pairs that have changed, then which pairs have gone."""
        yield from reports(kind, columns, rows, ())
        if poll.since:
            # Pairs of all kinds share their numbers.
            gone = self._counted.reported.gone_since(poll.since)
            yield from reports(kind, columns, iter(()), gone)

    def _open_channels(self) -> Iterator[Channel]:
        for connection in self._connections:
            if connection.vhost:
                for channel in connection.channels:
                    if not channel.is_closed:
                        yield channel


def _as_queue(queue: ObservedQueue) -> Queue:
    return cast("Queue", queue)


def _object_reports(
    kind: str, columns: tuple[str, ...], rows: Rows, known: KnownObjects[Any], poll: Poll
) -> Iterator[Report | None]:
    """Report the rows of the objects that have changed, then which objects have gone."""
    yield from reports(kind, columns, chain(rows, known.forget_unseen(poll)), ())
    if poll.since:
        yield from reports(kind, columns, iter(()), known.gone_since(poll.since))
