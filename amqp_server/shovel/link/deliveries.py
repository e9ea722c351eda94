"""Deliveries that a consumer has received and its owner has not taken yet."""

from __future__ import annotations

from typing import Final, Protocol

from amqp_server.protocol.strings import decode_shortstr

HELD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of deliveries above which the connection is not read; one message may exceed it."""
DELIVERY_BYTES: Final = 256
"""Bytes that an empty message counts for."""


class ConsumerChannel(Protocol):
    """Channel, as the deliveries of its consumers use it."""

    def check_open(self) -> None:
        """Do nothing if the channel can be used, else raise `LinkClosed`."""

    def resume_reading(self) -> None:
        """Let the connection be read."""

    async def activity(self) -> None:
        """Wait for the next read that concerns the channel, or for its end."""


class Delivery:
    """A message as it came from a queue.

    Attributes:
        tag: Delivery tag.
        is_redelivered: Whether it may have been delivered before.
        route: Exchange and routing key as two short strings, as the frames have them.
        header: Payload of the content header: class, weight, size of the body, properties.
        body: The body.
    """

    __slots__ = ("body", "header", "is_redelivered", "route", "tag")

    def __init__(
        self, tag: int, is_redelivered: bool, route: bytes, header: bytes, body: bytes
    ) -> None:
        self.tag = tag
        self.is_redelivered = is_redelivered
        self.route = route
        self.header = header
        self.body = body

    @property
    def exchange(self) -> str:
        """Name of the exchange that it was published to."""
        return decode_shortstr(self.route, 0)[0]

    @property
    def routing_key(self) -> str:
        """Routing key that it was published with."""
        return decode_shortstr(self.route, 1 + self.route[0])[0]


class Deliveries:
    """Deliveries of one consumer, in the order in which they came.

    While more than `HELD_BYTES_MAX` wait here, the whole connection is not read.

    Args:
        channel: Channel of the consumer.
        consumer_tag: Tag of the consumer.
    """

    def __init__(self, channel: ConsumerChannel, consumer_tag: str) -> None:
        self._channel = channel
        self.consumer_tag = consumer_tag
        self._waiting: list[Delivery] = []
        self._held_bytes = 0
        self._drops = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the connection should not be read now."""
        return self._held_bytes > HELD_BYTES_MAX

    def put(self, delivery: Delivery) -> None:
        """Add what has arrived; the channel calls it."""
        if not self._drops:
            self._waiting.append(delivery)
            self._held_bytes += DELIVERY_BYTES + len(delivery.header) + len(delivery.body)

    def drop(self) -> None:
        """Forget what waits and what still comes: it is not acked, so it stays in its queue."""
        self._drops = True
        self._waiting.clear()
        self._held_bytes = 0
        self._channel.resume_reading()

    def take(self, count: int | None = None) -> list[Delivery]:
        """Return what has arrived, at most `count`; empty if nothing has."""
        if count is None or count >= len(self._waiting):
            taken, self._waiting = self._waiting, []
            self._held_bytes = 0
        else:
            taken, self._waiting = self._waiting[:count], self._waiting[count:]
            self._held_bytes = sum(
                DELIVERY_BYTES + len(each.header) + len(each.body) for each in self._waiting
            )
        if not self.is_full:
            self._channel.resume_reading()
        return taken

    async def next_batch(self) -> list[Delivery]:
        """Return what has arrived, one delivery at least; wait for it.

        Raises:
            LinkClosed: The channel or its connection has ended, or the broker has cancelled the
                consumer; what arrived before cannot be acked any more.
        """
        while True:
            self._channel.check_open()
            if self._waiting:
                return self.take()
            await self._channel.activity()
