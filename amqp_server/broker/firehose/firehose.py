"""The firehose of one virtual host: messages about messages, to its exchange `amq.rabbitmq.trace`.

There is one only while an operator traces the virtual host; otherwise no code of this package runs.
A trace is charged to the client that publishes or consumes: it is made in the task queue of this
client, between its own messages. And it waits where a queue of traces has no room, as any publisher
does; a channel whose deliveries are traced pauses them then. So nothing piles up, and no trace is
dropped.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.firehose.trace_message import (
    TRACE_EXCHANGE,
    Delivery,
    Origin,
    Publish,
    trace_of,
)
from amqp_server.broker.publishing.enqueue import enqueue
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.transfers.large_body import with_body, without_large_body
from amqp_server.protocol.errors import AmqpError
from appendlog.layout.message import body_position, routing_key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from amqp_server.broker.client import Client
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.firehose.traced_messages import TracedMessage
    from amqp_server.broker.publishing.throttled_publishers import Throttled
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.routing import Routing
    from amqp_server.broker.routing.steps import Steps

logger = logging.getLogger("amqp_server.broker.firehose.firehose")

STEP_QUEUES: Final = 64
"""Most queues that get a trace in one step."""


class PausableChannel(Protocol):
    """A channel whose deliveries may wait."""

    def pause_deliveries(self) -> None:
        """Deliver nothing until `resume_deliveries`."""

    def resume_deliveries(self) -> None:
        """Deliver again."""


class PausedDeliveries:
    """Lets a channel deliver nothing while a queue throttles it, as publishers are not read.

    Args:
        channel: Channel that delivers.
    """

    def __init__(self, channel: PausableChannel) -> None:
        self._channel = channel
        self._reasons: set[object] = set()

    def pause_reading(self, reason: object) -> None:
        """Deliver nothing until `resume_reading` was called for this and every other reason."""
        if not self._reasons:
            self._channel.pause_deliveries()
        self._reasons.add(reason)

    def resume_reading(self, reason: object) -> None:
        """Remove one reason; without any the channel delivers again."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._channel.resume_deliveries()


class TracedHost(Protocol):
    """A virtual host, as its firehose sees it."""

    @property
    def name(self) -> str:
        """Name of the virtual host."""

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Exchanges by name."""

    @property
    def routing(self) -> Routing:
        """Finds the routes of messages."""


class TracedChannel(Protocol):
    """A channel that publishes or delivers."""

    @property
    def number(self) -> int:
        """Number of the channel in its connection."""

    @property
    def client(self) -> Client:
        """Connection of the channel."""


class DeliveringChannel(TracedChannel, Protocol):
    """A channel that delivers."""

    def pause_deliveries(self) -> None:
        """Deliver nothing until `resume_deliveries`."""

    def resume_deliveries(self) -> None:
        """Deliver again."""


class Firehose:
    """Traces the messages of one virtual host. The event loop owns it.

    Methods return iterators: each step does a part, and other clients are served between two.

    Args:
        vhost: The virtual host.
    """

    def __init__(self, vhost: TracedHost) -> None:
        self._vhost = vhost

    def trace_publishes(
        self, channel: TracedChannel, queues: Sequence[Queue], messages: Iterable[bytes]
    ) -> Iterator[None]:
        """Tell of messages that go to their queues next.

        Args:
            channel: Channel that publishes.
            queues: Queues that they go to.
            messages: Messages, in order.
        """
        happened = Publish(self._origin_of(channel), [queue.name for queue in queues])
        for message in messages:
            yield from self._send(without_large_body(message), happened, channel.client)
            yield

    def trace_deliveries(
        self,
        channel: DeliveringChannel,
        queue_name: str,
        messages: Iterable[TracedMessage],
        *,
        redelivered: bool,
    ) -> Iterator[None]:
        """Tell of messages that were delivered; until then the channel delivers nothing more.

        Args:
            channel: Channel that has delivered them.
            queue_name: Queue that they came from.
            messages: Messages, in order.
            redelivered: Whether they may have been delivered before.
        """
        happened = Delivery(self._origin_of(channel), queue_name, redelivered)
        waiting = PausedDeliveries(channel)
        channel.pause_deliveries()
        try:
            for message in messages:
                yield from self._send(message, happened, waiting)
                yield
        finally:
            channel.resume_deliveries()

    def _origin_of(self, channel: TracedChannel) -> Origin:
        client = channel.client
        return Origin(self._vhost.name, client.name, channel.number, client.user)

    def _send(
        self, message: TracedMessage, happened: Publish | Delivery, throttled: Throttled
    ) -> Iterator[None]:
        """Send the trace of one message to the queues that are bound, if any."""
        exchange = self._vhost.exchanges[TRACE_EXCHANGE]
        if not exchange.bindings:
            return
        front, body = message
        body_at = body_position(front)
        trace = trace_of(front[:body_at], happened)
        if trace is None:
            return
        queues = yield from self._queues_of(exchange, trace)
        if not queues:
            return
        if body is None:
            trace += memoryview(front)[body_at:]
        else:
            trace = yield from with_body(trace, body)
        for at in range(0, len(queues), STEP_QUEUES):
            some = queues[at : at + STEP_QUEUES]
            enqueue(some, [trace], trace[0])
            for queue in some:
                if queue.store.throttles_publishers:
                    queue.throttle(throttled)
            if len(some) == STEP_QUEUES:
                yield

    def _queues_of(self, exchange: Exchange, trace: bytes) -> Steps[Sequence[Queue]]:
        key = routing_key_of(trace).decode("utf-8", "surrogateescape")
        envelope = Envelope((key,), trace)
        try:
            return (yield from self._vhost.routing.route_in_steps(exchange, envelope))
        except AmqpError as error:
            # An exchange behind it refuses messages, because of damage.
            logger.warning("trace not routed vhost=%s reason=%s", self._vhost.name, error)
            return ()
