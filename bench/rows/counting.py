"""Consumers of several queues in one process: deliveries are counted by their bytes.

Every queue has one consumer with a connection of its own. One delivery of each read is checked in
full. The messages of a queue come from one publisher in order, so a message that is lost or
repeated puts all that follow out of place, and the next check sees it.
"""

import selectors
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import acknowledge
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import CONSUME_CHANNEL, IDLE_SECONDS_MAX
from bench.delivery_layout import DeliveryLayout
from bench.errors import BenchError, BrokenRhythmError
from bench.rows.ack_frames import SingleAcks
from bench.worker import UNKNOWN, Counters, StartLine

_BUFFER_BYTES: Final = 1 << 18
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class CountOrder:
    """What the consumers are to do.

    Attributes:
        url: The broker.
        queues: Queues that are there; each gets one consumer.
        block_messages: Messages in a block of the publisher.
        prefetch: Most deliveries without an ack, for each consumer; 0 to consume without acks.
        ack_every: Deliveries for each ack (multiple); 0 for an ack of each delivery by itself.
        is_dealt: Whether one publisher's messages go to the queues in turn, rather than every
            queue getting all messages of a publisher.
        read_bytes_least: How much each read waits for, so that a broker that writes message by
            message does not wake us for each; less than what `prefetch` deliveries come to.
        marks_seconds: Moments, counted from the start, at which to note what each queue gave.
    """

    url: BrokerUrl
    queues: tuple[str, ...]
    block_messages: int
    prefetch: int = 0
    ack_every: int = 0
    is_dealt: bool = False
    read_bytes_least: int = 16_384
    marks_seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class CountResult:
    """What the consumers saw.

    Attributes:
        received: Deliveries of each queue.
        end_ns: CLOCK_MONOTONIC at the last delivery; 0 when there was none.
        cpu_seconds: CPU that the process used.
        received_at: Deliveries of each queue at each of the order's marks that was reached.
    """

    received: tuple[int, ...]
    end_ns: int
    cpu_seconds: float
    received_at: tuple[tuple[int, ...], ...] = ()


class QueueCounter:
    """One consumer: its connection, its count, and the rest of what it has read.

    Attributes:
        connection: Its connection.
        received: Whole deliveries so far.
    """

    def __init__(self, connection: Connection, order: CountOrder, number: int) -> None:
        """Take over a connection whose consumer has started.

        Args:
            connection: The connection.
            order: What to do.
            number: Number of the consumer's queue in the order.
        """
        self.connection = connection
        self.received = 0
        self._order = order
        self._step = len(order.queues) if order.is_dealt else 1
        self._first = number if order.is_dealt else 0
        self._acked = 0
        self._single_acks = (
            SingleAcks(CONSUME_CHANNEL) if order.prefetch and not order.ack_every else None
        )
        self._layout: DeliveryLayout | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        unread = connection.take_unread()
        self._buffer[: len(unread)] = unread
        self._filled = len(unread)

    @property
    def unread_bytes(self) -> int:
        """Bytes of a delivery that is not whole yet."""
        return self._filled

    def read(self) -> int:
        """Read what is there, and return how many whole deliveries it was.

        Raises:
            BrokenRhythmError: A message was lost, repeated or out of order.
            BenchError: The broker closed the connection, or sent something unexpected.
        """
        try:
            read_bytes = self.connection.socket.recv_into(self._buffer[self._filled :])
        except BlockingIOError:
            read_bytes = 0
        else:
            if not read_bytes:
                raise BenchError("the broker closed the connection")
        self._filled += read_bytes
        if self._layout is None:
            self._layout = DeliveryLayout.try_learn(self._buffer[: self._filled])
        return self._count(self._layout) if self._layout else 0

    def _count(self, layout: DeliveryLayout) -> int:
        whole = self._filled // layout.delivery_bytes
        if not whole:
            return 0
        end = whole * layout.delivery_bytes
        place = self.received + whole - 1
        layout.check(
            self._buffer,
            end - layout.delivery_bytes,
            place,
            self._order.block_messages,
            place * self._step + self._first,
        )
        rest = self._filled - end
        self._buffer[:rest] = self._buffer[end : self._filled]
        self._filled = rest
        self.received += whole
        if self._order.prefetch and self.received - self._acked >= max(1, self._order.ack_every):
            self.acknowledge()
        return whole

    def acknowledge(self) -> None:
        """Acknowledge all that has come: at most `prefetch` acks, which a socket has room for."""
        if not self._order.prefetch or self.received == self._acked:
            return
        if self._single_acks:
            acks = self._single_acks.encode(self._acked + 1, self.received + 1)
        else:
            acks = acknowledge(CONSUME_CHANNEL, self.received)
        self._acked = self.received
        self.connection.socket.sendall(acks)


def count_deliveries(start_line: StartLine, order: CountOrder, counters: Counters) -> CountResult:
    """Carry out an order, in a process of its own, until `counters.expected` are received in all.

    Gives up when nothing has come for IDLE_SECONDS_MAX and the publisher is done.

    Raises:
        OSError: The broker went away.
        BrokenRhythmError: A message was lost, repeated or out of order.
        BenchError: The broker sent something unexpected.
    """
    with ExitStack() as stack:
        consumers = []
        for number, queue in enumerate(order.queues):
            connection = stack.enter_context(Connection(order.url, CONSUME_CHANNEL))
            connection.start_consumer(queue, order.prefetch)
            connection.read_at_least(order.read_bytes_least)
            consumers.append(QueueCounter(connection, order, number))
        start_line.wait()
        end_ns, received_at = _count_until_complete(consumers, order.marks_seconds, counters)
        cpu_seconds = start_line.cpu_seconds()
        for each in consumers:
            if each.unread_bytes:
                raise BrokenRhythmError(
                    each.received, f"{each.unread_bytes} bytes of a delivery at the end"
                )
            each.connection.socket.setblocking(True)
            each.acknowledge()
            each.connection.close()
        received = tuple(each.received for each in consumers)
        return CountResult(received, end_ns, cpu_seconds, tuple(received_at))


def _count_until_complete(
    consumers: list[QueueCounter], marks_seconds: Sequence[float], counters: Counters
) -> tuple[int, list[tuple[int, ...]]]:
    """Read until all that is expected has come.

    Returns:
        When the last delivery came, 0 for none; and what each queue had given at each mark.
    """
    received = end_ns = 0
    start_ns = moved_ns = time.monotonic_ns()
    marks_ns = [start_ns + int(mark * 1e9) for mark in marks_seconds]
    received_at: list[tuple[int, ...]] = []
    with selectors.DefaultSelector() as selector:
        for each in consumers:
            each.connection.socket.setblocking(False)
            selector.register(each.connection.socket, selectors.EVENT_READ, each)
        while True:
            # Less than `read_bytes_least` wakes nobody: the ends of a run are fetched unasked.
            ready = [key.data for key, _ in selector.select(_LOOK_SECONDS)] or consumers
            counted = sum(each.read() for each in ready)
            now_ns = time.monotonic_ns()
            if counted:
                received += counted
                moved_ns = end_ns = now_ns
            counters.received.value = received
            if marks_ns and now_ns >= marks_ns[0]:
                del marks_ns[0]
                received_at.append(tuple(each.received for each in consumers))
            expected = counters.expected.value
            if expected != UNKNOWN and (
                received >= expected or now_ns - moved_ns > IDLE_SECONDS_MAX * 1e9
            ):
                return end_ns, received_at
