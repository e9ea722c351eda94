"""A consumer's process: one connection that counts deliveries by their bytes."""

import time
from array import array
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import acknowledge, text_table
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.delivery_layout import DeliveryLayout
from bench.errors import BenchError, BrokenRhythmError
from bench.worker import UNKNOWN, Counters, StartLine

CONSUME_CHANNEL: Final = 7
"""Another than the publisher's: a broker must not be able to hand frames on as they came."""

IDLE_SECONDS_MAX: Final = 10.0
"""How long to wait for what is missing, once it is known how much that is."""

_BUFFER_BYTES: Final = 1 << 20
_LOOK_SECONDS: Final = 0.01
_READ_BYTES_LEAST: Final = 16384


@dataclass(frozen=True, slots=True)
class ConsumeOrder:
    """What a consumer is to do.

    Attributes:
        url: The broker.
        queue: Name of a queue that is there.
        block_messages: Messages in a block of the publisher: says which message comes when.
        prefetch: Most deliveries without an ack; 0 to consume without acks.
        ack_every: Deliveries for each ack (multiple); at most `prefetch`.
        reads_latency: Whether to read every stamp, rather than look at one delivery in each read.
        arguments: Of `basic.consume`, encoded.
    """

    url: BrokerUrl
    queue: str
    block_messages: int
    prefetch: int = 0
    ack_every: int = 0
    reads_latency: bool = False
    arguments: bytes = text_table()


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """What a consumer saw.

    Attributes:
        received: Deliveries, each checked to be in its place, or counted between two that are.
        start_ns: CLOCK_MONOTONIC at the start of the run.
        end_ns: CLOCK_MONOTONIC at the last delivery; 0 when there was none.
        cpu_seconds: CPU that the consumer used.
        latencies_ns: For each message, the time from its stamp to its read; empty unless asked.
    """

    received: int
    start_ns: int
    end_ns: int
    cpu_seconds: float
    latencies_ns: "array[int]"


def consume(start_line: StartLine, order: ConsumeOrder, counters: Counters) -> ConsumeResult:
    """Carry out an order, in a process of its own, until `counters.expected` are received.

    Gives up when nothing has come for IDLE_SECONDS_MAX and the publisher is done.

    Raises:
        OSError: The broker went away.
        BrokenRhythmError: A message was lost, repeated or out of order.
        BenchError: The broker sent something unexpected.
    """
    with Connection(order.url, CONSUME_CHANNEL) as connection:
        connection.start_consumer(order.queue, order.prefetch, order.arguments)
        counter = DeliveryCounter(connection, order, counters)
        start_line.wait()
        start_ns = time.monotonic_ns()
        counter.run()
        cpu_seconds = start_line.cpu_seconds()
        connection.close()
        return ConsumeResult(
            received=counter.received,
            start_ns=start_ns,
            end_ns=counter.end_ns,
            cpu_seconds=cpu_seconds,
            latencies_ns=counter.latencies_ns,
        )


class DeliveryCounter:
    """Reads deliveries off a socket in large pieces, counts them, and acknowledges them.

    One delivery of each read is checked in full. Messages come from one publisher in order, so a
    message lost or repeated anywhere puts all that follow out of place, and the next check sees it.

    Attributes:
        received: Whole deliveries so far.
        end_ns: CLOCK_MONOTONIC at the last read.
        latencies_ns: As in `ConsumeResult`.
    """

    def __init__(self, connection: Connection, order: ConsumeOrder, counters: Counters) -> None:
        self.received = 0
        self.end_ns = 0
        self.latencies_ns: array[int] = array("q")
        self._connection = connection
        self._order = order
        self._counters = counters
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        """Bytes at the buffer's start that belong to a delivery that is not whole yet."""
        self._acked = 0

    def run(self) -> None:
        """Count until all that is expected has come, or nothing comes any more.

        Raises:
            As `consume`.
        """
        self._connection.limit_read(_LOOK_SECONDS)
        if not self._order.reads_latency:
            # A broker that writes message by message would wake us for each, and so take the CPU
            # that it needs itself. The price is at most _LOOK_SECONDS at the end of a run.
            self._connection.read_at_least(_READ_BYTES_LEAST)
        self._take(self._connection.take_unread())
        layout = self._learn_layout()
        if layout is None:
            return
        read = self._read_stamps if self._order.reads_latency else self._count
        while True:
            read(layout)
            if self._is_complete() or not self._fill():
                break
        if self._filled:
            raise BrokenRhythmError(self.received, f"{self._filled} bytes of a delivery at the end")
        self._acknowledge()

    def _learn_layout(self) -> DeliveryLayout | None:
        while (layout := DeliveryLayout.try_learn(self._buffer[: self._filled])) is None:
            if not self._fill():
                return None
        return layout

    def _take(self, octets: bytes) -> None:
        self._buffer[: len(octets)] = octets
        self._filled = len(octets)

    def _fill(self) -> bool:
        """Read once into the buffer; False when there is nothing more to wait for."""
        idle_since = time.monotonic()
        while True:
            try:
                read_bytes = self._connection.socket.recv_into(self._buffer[self._filled :])
            except BlockingIOError:
                idle_seconds = time.monotonic() - idle_since
                expected = self._counters.expected.value
                if self._is_complete() or (expected != UNKNOWN and idle_seconds > IDLE_SECONDS_MAX):
                    return False
                continue
            if not read_bytes:
                raise BenchError("the broker closed the connection")
            self._filled += read_bytes
            return True

    def _count(self, layout: DeliveryLayout) -> None:
        """Count the whole deliveries in the buffer; check the last one."""
        whole = self._filled // layout.delivery_bytes
        if not whole:
            return
        end = whole * layout.delivery_bytes
        place = self.received + whole - 1
        block_messages = self._order.block_messages
        layout.check(self._buffer, end - layout.delivery_bytes, place, block_messages)
        self._advance(whole, end)

    def _read_stamps(self, layout: DeliveryLayout) -> None:
        """Read stamp and number of each whole delivery in the buffer."""
        now_ns = time.monotonic_ns()
        whole = self._filled // layout.delivery_bytes
        if not whole:
            return
        end = whole * layout.delivery_bytes
        place = self.received
        block_messages = self._order.block_messages
        for _, index, block, stamp_ns in layout.read_fields(self._buffer[:end]):
            if block * block_messages + index != place:
                raise BrokenRhythmError(place, f"block {block}, index {index}")
            self.latencies_ns.append(now_ns - stamp_ns)
            place += 1
        self._advance(whole, end)

    def _advance(self, whole: int, end: int) -> None:
        self.received += whole
        self.end_ns = time.monotonic_ns()
        self._counters.received.value = self.received
        rest = self._filled - end
        self._buffer[:rest] = self._buffer[end : self._filled]
        self._filled = rest
        ack_every = self._order.ack_every
        if ack_every and self.received - self._acked >= ack_every:
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self._order.prefetch and self.received > self._acked:
            self._acked = self.received
            self._connection.socket.sendall(acknowledge(CONSUME_CHANNEL, self.received))

    def _is_complete(self) -> bool:
        expected: int = self._counters.expected.value
        return expected != UNKNOWN and self.received >= expected
