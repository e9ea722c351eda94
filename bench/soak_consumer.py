"""Twenty consumers in one process: every message is looked at, so LOST is exact."""

import selectors
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import acknowledge
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import CONSUME_CHANNEL, IDLE_SECONDS_MAX
from bench.delivery_layout import DeliveryLayout
from bench.errors import BenchError, BrokenRhythmError
from bench.worker import UNKNOWN, Counters, StartLine

_BUFFER_BYTES: Final = 1 << 18
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SoakConsumeOrder:
    """What the consumers are to do.

    Attributes:
        url: The broker.
        queue: The one queue that all consume.
        block_messages: Messages in a block of each publisher.
        publishers: How many publishers there are.
        consumers: How many consumers, each with a connection of its own.
        prefetch: Most deliveries without an ack, for each consumer.
        ack_every: Deliveries for each ack (multiple); at most `prefetch`.
    """

    url: BrokerUrl
    queue: str
    block_messages: int
    publishers: int
    consumers: int
    prefetch: int
    ack_every: int


@dataclass(frozen=True, slots=True)
class SoakConsumeResult:
    """What the consumers saw together.

    Attributes:
        received: Deliveries.
        distinct: Different messages among them.
        end_ns: CLOCK_MONOTONIC at the last delivery; 0 when there was none.
        cpu_seconds: CPU that the process used.
    """

    received: int
    distinct: int
    end_ns: int
    cpu_seconds: float


class SeenMessages:
    """Which messages of which publisher have come: a byte each, so that counting is exact."""

    def __init__(self, publishers: int, block_messages: int) -> None:
        self._block_messages = block_messages
        self._seen = [bytearray() for _ in range(publishers)]

    def mark(self, layout: DeliveryLayout, deliveries: memoryview) -> None:
        """Mark the messages of whole deliveries.

        Raises:
            BrokenRhythmError: There is no such publisher.
        """
        seen = self._seen
        block_messages = self._block_messages
        for publisher, index, block, _ in layout.read_fields(deliveries):
            number = block * block_messages + index
            try:
                seen[publisher][number] = 1
            except IndexError:
                if publisher >= len(seen):
                    raise BrokenRhythmError(number, f"of publisher {publisher}") from None
                missing = number + 1 - len(seen[publisher])
                seen[publisher].extend(bytes(missing + 100 * block_messages))
                seen[publisher][number] = 1

    def count(self) -> int:
        """Count the distinct messages."""
        return sum(each.count(1) for each in self._seen)


class _SoakConsumer:
    """One connection and the rest of what it has read."""

    def __init__(self, connection: Connection, order: SoakConsumeOrder) -> None:
        self.connection = connection
        self.received = 0
        self._order = order
        self._acked = 0
        self._layout: DeliveryLayout | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        unread = connection.take_unread()
        self._filled = len(unread)
        self._buffer[: self._filled] = unread

    def read(self, seen: SeenMessages) -> int:
        """Read what is there, and return how many whole deliveries it was."""
        read_bytes = self.connection.socket.recv_into(self._buffer[self._filled :])
        if not read_bytes:
            raise BenchError("the broker closed the connection")
        self._filled += read_bytes
        if self._layout is None:
            self._layout = DeliveryLayout.try_learn(self._buffer[: self._filled])
        if self._layout is None:
            return 0
        whole = self._filled // self._layout.delivery_bytes
        if not whole:
            return 0
        end = whole * self._layout.delivery_bytes
        seen.mark(self._layout, self._buffer[:end])
        rest = self._filled - end
        self._buffer[:rest] = self._buffer[end : self._filled]
        self._filled = rest
        self.received += whole
        if self.received - self._acked >= self._order.ack_every:
            self.acknowledge()
        return whole

    def acknowledge(self) -> None:
        """Acknowledge all that has come: small writes, which a socket always has room for."""
        if self.received > self._acked:
            self._acked = self.received
            self.connection.socket.sendall(acknowledge(CONSUME_CHANNEL, self.received))


def soak_consume(
    start_line: StartLine, order: SoakConsumeOrder, counters: Counters
) -> SoakConsumeResult:
    """Carry out an order, in a process of its own, until `counters.expected` are received.

    Gives up when nothing has come for IDLE_SECONDS_MAX and the publishers are done.

    Raises:
        OSError: The broker went away.
        BenchError: It closed a connection, or sent something unexpected.
    """
    with ExitStack() as stack:
        consumers = []
        for _ in range(order.consumers):
            connection = stack.enter_context(Connection(order.url, CONSUME_CHANNEL))
            connection.start_consumer(order.queue, order.prefetch)
            consumers.append(_SoakConsumer(connection, order))
        seen = SeenMessages(order.publishers, order.block_messages)
        start_line.wait()
        end_ns = _consume_until_complete(consumers, seen, counters)
        cpu_seconds = start_line.cpu_seconds()
        for each in consumers:
            each.connection.socket.setblocking(True)
            each.acknowledge()
            each.connection.close()
        received = sum(each.received for each in consumers)
        return SoakConsumeResult(received, seen.count(), end_ns, cpu_seconds)


def _consume_until_complete(
    consumers: list[_SoakConsumer], seen: SeenMessages, counters: Counters
) -> int:
    """Read until all that is expected has come; return when the last did, 0 for none."""
    received = 0
    end_ns = 0
    moved_ns = time.monotonic_ns()
    with selectors.DefaultSelector() as selector:
        for each in consumers:
            each.connection.socket.setblocking(False)
            selector.register(each.connection.socket, selectors.EVENT_READ, each)
        while True:
            for key, _ in selector.select(_LOOK_SECONDS):
                received += key.data.read(seen)
                moved_ns = end_ns = time.monotonic_ns()
            counters.received.value = received
            expected = counters.expected.value
            if expected != UNKNOWN and (
                received >= expected or time.monotonic_ns() - moved_ns > IDLE_SECONDS_MAX * 1e9
            ):
                return end_ns
