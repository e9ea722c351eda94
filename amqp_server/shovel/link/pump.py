"""Moves messages from a queue of one broker to an exchange of another, or of the same."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Final

from amqp_server.shovel.link.ack_mode import PREFETCH_COUNT, AckMode
from amqp_server.shovel.link.channel import publish_frame, route_names
from amqp_server.shovel.link.deliveries import DELIVERY_BYTES
from amqp_server.shovel.link.errors import LinkClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.protocol.field_values import Table
    from amqp_server.shovel.link.channel import LinkChannel, Returned
    from amqp_server.shovel.link.deliveries import Deliveries, Delivery

BATCH_COUNT_MAX: Final = 500
"""Messages that are published with one write."""
IN_FLIGHT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of messages without a confirm; one message may exceed it."""
REFUSED_WAIT_SECONDS: Final = 1.0
"""Time without new publishes after the destination has refused one: it comes back at once."""
ROUTES_MAX: Final = 1000
"""Routes whose frames are remembered."""


class Route:
    """Where messages go.

    Args:
        exchange: Name of the exchange; None: that to which the message was published first.
        routing_key: Routing key; None: that of the message.
    """

    __slots__ = ("exchange", "routing_key")

    def __init__(self, exchange: str | None = None, routing_key: str | None = None) -> None:
        self.exchange = exchange
        self.routing_key = routing_key


class Pump:
    """Moves messages of one queue, in their order, each at least once.

    With `ON_CONFIRM` a message is acked when the destination has confirmed it. A message that the
    destination refuses, or cannot route, goes back to its queue; the pump then waits for
    `rest_seconds`, and goes on. Both channels belong to the pump alone.

    Args:
        source: Channel of the queue.
        destination: Channel of the exchange; the pump asks it for confirms.
        queue: Name of the queue.
        route: Exchange and routing key to which messages go.
        ack_mode: When the source may forget a message.
        prefetch: Unacked messages at the source at most; 0: as many as the memory bounds allow.
        consumer_arguments: Arguments of the consumer.
        limit: Messages to move; None: all that come.
        rewrite: Returns the property flags and properties with which a message is published, from
            those that it has (octets 12 and following of its content header).
        rest_seconds: Time without new publishes after a refusal.
        on_refused: Is called with the reason after messages were refused.

    Attributes:
        moved: Messages that the destination has, or, without confirms, that were sent to it.
        refused: Messages that the destination has refused or returned; each time counts.
        last_refusal: Why the last one was.
    """

    def __init__(
        self,
        source: LinkChannel,
        destination: LinkChannel,
        queue: str,
        route: Route,
        *,
        ack_mode: AckMode = AckMode.ON_CONFIRM,
        prefetch: int = PREFETCH_COUNT,
        consumer_arguments: Table | None = None,
        limit: int | None = None,
        rewrite: Callable[[bytes], bytes] | None = None,
        rest_seconds: float = REFUSED_WAIT_SECONDS,
        on_refused: Callable[[str], None] | None = None,
    ) -> None:
        self._source = source
        self._destination = destination
        self._queue = queue
        self._route = route
        self._ack_mode = ack_mode
        self._prefetch = prefetch
        self._consumer_arguments = consumer_arguments
        self._limit = limit
        self._rewrite = rewrite
        self._rest_seconds = rest_seconds
        self._on_refused = on_refused
        self.moved = 0
        self.refused = 0
        self.last_refusal = ""
        # By the numbers of their publishes, which ascend.
        self._in_flight: dict[int, Delivery] = {}
        self._in_flight_bytes = 0
        self._floor = 0
        self._returned: dict[int, str] = {}
        self._next_return = 0
        # Routes of which it is not known what came back, and the last publish that counts as such.
        self._unclear: dict[tuple[str, str], int] = {}
        self._rests_until = 0.0
        self._is_stopping = False
        self._wake = asyncio.Event()
        self._frames: dict[bytes, bytes] = {}
        self._fixed_frame = b""
        if route.exchange is not None and route.routing_key is not None:
            self._fixed_frame = self._frame(route.exchange, route.routing_key)

    @property
    def in_flight(self) -> int:
        """Messages that were published and are not confirmed."""
        return len(self._in_flight)

    def stop(self) -> None:
        """Let `run` return when what is in flight is confirmed; nothing else is published."""
        self._is_stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Move messages until `limit` are moved, or `stop` is called.

        Raises:
            LinkClosed: A channel or its connection has ended: what is not acked comes again.
            LinkError: A message cannot be published to this destination.
        """
        source, destination = self._source, self._destination
        if self._limit is not None and self._limit <= self.moved:
            return
        for channel in (source, destination):
            channel.share_activity(self._wake)
        if self._ack_mode is AckMode.ON_CONFIRM:
            confirms = await destination.confirm_select()
            if confirms.unsettled:
                raise ValueError("the channel of the destination waits for confirms of others")
            self._floor = confirms.floor
            destination.on_settled = self._take_settled
            destination.on_returned = self._take_returned
        prefetch = self._prefetch
        if self._limit is not None:
            prefetch = min(prefetch, self._limit) if prefetch else min(self._limit, 65535)
        # A message that was sent without an ack cannot go back: with a limit all of them are acked.
        no_ack = self._ack_mode is AckMode.NO_ACK and self._limit is None
        if not no_ack:
            await source.set_prefetch(prefetch)
        deliveries = await source.consume(self._queue, self._consumer_arguments, no_ack=no_ack)
        try:
            await self._move(deliveries, acks=not no_ack)
        finally:
            destination.on_settled = destination.on_returned = None
        await source.cancel(deliveries)

    async def _move(self, deliveries: Deliveries, *, acks: bool) -> None:
        source, destination = self._source, self._destination
        while not self._is_done():
            self._wake.clear()
            source.check_open()
            destination.check_open()
            room = self._room()
            batch = deliveries.take(room) if room else []
            if not batch:
                await self._wait(deliveries)
                continue
            self._publish(batch, acks=acks)
            await destination.drained()

    def _is_done(self) -> bool:
        if self._limit is not None and self.moved >= self._limit:
            return True
        return self._is_stopping and not self._in_flight

    def _room(self) -> int:
        """Return how many messages may be published now."""
        if self._is_stopping or self._in_flight_bytes > IN_FLIGHT_BYTES_MAX:
            return 0
        if self._rests_until and asyncio.get_running_loop().time() < self._rests_until:
            return 0
        if self._limit is None:
            return BATCH_COUNT_MAX
        return min(BATCH_COUNT_MAX, self._limit - self.moved - len(self._in_flight))

    async def _wait(self, deliveries: Deliveries) -> None:
        """Wait for something to do, or for the end of the rest after a refusal."""
        seconds = None
        if self._rests_until:
            seconds = self._rests_until - asyncio.get_running_loop().time()
            if seconds <= 0:
                self._rests_until = 0.0
                if len(deliveries):
                    return
                seconds = None
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _publish(self, batch: list[Delivery], *, acks: bool) -> None:
        """Publish deliveries with one write, and ack them if no confirm is waited for.

        Raises:
            LinkError: A message cannot be published to this destination.
        """
        destination, rewrite = self._destination, self._rewrite
        frame, frames = self._fixed_frame, self._frames
        pieces: list[bytes] = []
        for each in batch:
            publish = frame or frames.get(each.route) or self._frame_of(each.route)
            if rewrite is not None:
                # Kept as it is published: what comes back is compared with it.
                each.header = each.header[:12] + rewrite(each.header[12:])
            pieces += destination.content_frames(publish, each.header, each.body)
        destination.write_publishes(pieces, len(batch))
        if self._ack_mode is AckMode.ON_CONFIRM:
            assert destination.confirms is not None, "confirm mode"
            first = destination.confirms.published - len(batch) + 1
            self._in_flight.update(enumerate(batch, first))
            self._in_flight_bytes += sum(
                [DELIVERY_BYTES + len(each.header) + len(each.body) for each in batch]
            )
            return
        self.moved += len(batch)
        if acks:
            self._source.ack(batch[-1].tag, multiple=True)

    def _frame_of(self, route: bytes) -> bytes:
        """Return the frame that publishes messages of a route, and remember it.

        Raises:
            AmqpError: The octets are no route.
        """
        exchange, routing_key = route_names(route)
        target = self._route
        frame = self._frame(
            exchange if target.exchange is None else target.exchange,
            routing_key if target.routing_key is None else target.routing_key,
        )
        if len(self._frames) >= ROUTES_MAX:
            self._frames.clear()
        self._frames[route] = frame
        return frame

    def _frame(self, exchange: str, routing_key: str) -> bytes:
        is_mandatory = self._ack_mode is AckMode.ON_CONFIRM
        return publish_frame(
            self._destination.number, exchange, routing_key, is_mandatory=is_mandatory
        )

    def _take_settled(self) -> None:
        """Ack what the destination has confirmed; give back what it has refused."""
        confirms = self._destination.confirms
        assert confirms is not None, "confirm mode"
        count = confirms.floor - self._floor
        if count == 0:
            return
        in_flight = self._in_flight
        first = self._floor + 1
        settled = [in_flight.pop(number) for number in range(first, confirms.floor + 1)]
        if not in_flight:
            self._unclear.clear()
        self._in_flight_bytes -= sum(
            [DELIVERY_BYTES + len(each.header) + len(each.body) for each in settled]
        )
        self._floor = confirms.floor
        refused = self._refused_among(first, confirms.floor, confirms.nacked)
        if not self._source.is_open:
            # Nothing can be acked any more: all of them come again.
            return
        if not refused:
            self.moved += count
            self._source.ack(settled[-1].tag, multiple=True)
            return
        self._settle_singly(first, settled, refused)

    def _refused_among(self, first: int, last: int, nacked: set[int]) -> dict[int, str]:
        """Take and return what was refused of publishes first to last, with the reasons."""
        if not nacked and not self._returned:
            return {}
        found = {}
        for number in range(first, last + 1):
            if number in self._returned:
                found[number] = self._returned.pop(number)
            elif number in nacked:
                found[number] = "the destination refused it (nack)"
            nacked.discard(number)
        return found

    def _settle_singly(self, first: int, settled: list[Delivery], refused: dict[int, str]) -> None:
        acked = None
        for number, each in enumerate(settled, first):
            if number not in refused:
                acked = each
                self.moved += 1
                continue
            if acked is not None:
                self._source.ack(acked.tag, multiple=True)
                acked = None
            self._source.nack(each.tag, requeue=True)
            self.refused += 1
            self.last_refusal = refused[number]
        if acked is not None:
            self._source.ack(acked.tag, multiple=True)
        self._rests_until = asyncio.get_running_loop().time() + self._rest_seconds
        if self._on_refused is not None:
            self._on_refused(self.last_refusal)

    def _take_returned(self, returned: Returned) -> None:
        """Find the publish that has come back; its confirm follows.

        A return does not say which publish it is. Publishes with the same octets are as good as
        each other. If the broker has changed the octets, as it does when it takes out a header
        `BCC`, everything in flight with this route goes back to the queue: some messages are moved
        twice then, and none is lost.

        Raises:
            LinkClosed: Nothing with this route was published.
        """
        exchange, routing_key = route_names(returned.route)
        reason = f"{returned.code} {returned.text}: exchange '{exchange}' key '{routing_key}'"
        target = exchange, routing_key
        if self._unclear.get(target, 0) <= self._floor:
            number = self._publish_of(target, returned)
            if number:
                self._returned[number] = reason
                self._next_return = number + 1
                return
        before = len(self._returned)
        since = max(self._unclear.get(target, 0), self._floor)
        last = next(reversed(self._in_flight), 0)
        for number in range(since + 1, last + 1):
            if self._target(self._in_flight[number]) == target:
                self._returned.setdefault(number, reason)
        if len(self._returned) == before and since == self._floor:
            raise LinkClosed(0, f"a message came back that was not published: {reason}")
        self._unclear[target] = last

    def _publish_of(self, target: tuple[str, str], returned: Returned) -> int:
        """Return the number of a publish in flight with these octets; 0 if there is none.

        Publishes come back in their order: the search goes on behind the last one that was found.
        """
        first, last = self._floor + 1, next(reversed(self._in_flight), 0)
        middle = min(max(first, self._next_return), last + 1)
        for number in chain(range(middle, last + 1), range(first, middle)):
            each = self._in_flight[number]
            if (
                number not in self._returned
                and each.header == returned.header
                and each.body == returned.body
                and self._target(each) == target
            ):
                return number
        return 0

    def _target(self, delivery: Delivery) -> tuple[str, str]:
        """Return the exchange and routing key with which a delivery was published."""
        target = self._route
        if target.exchange is not None and target.routing_key is not None:
            return target.exchange, target.routing_key
        exchange, routing_key = route_names(delivery.route)
        return (
            exchange if target.exchange is None else target.exchange,
            routing_key if target.routing_key is None else target.routing_key,
        )
