"""The AMQP load: durable messages at a fixed rate over many queues, confirmed and consumed."""

import struct
import time
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import BASIC, EMPTY_TABLE, FRAME_END, acknowledge, method_frame, short_string
from bench.broker_url import BrokerUrl
from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.consumer import IDLE_SECONDS_MAX
from bench.delivery_counter import CONSUME_CHANNEL
from bench.delivery_layout import DeliveryLayout
from bench.errors import BenchError, BrokenRhythmError
from bench.management.spread_blocks import SpreadBlocks
from bench.message_body import FIELDS, FIELDS_BYTES
from bench.pace import Pace
from bench.publisher import PUBLISH_CHANNEL, PublishResult, sharpen_timers
from bench.requests import Request
from bench.worker import UNKNOWN, Counters, StartLine

_TICK_SECONDS: Final = 0.001
_PREFETCH: Final = 1000
_ACK_EVERY: Final = 100
_BUFFER_BYTES: Final = 1 << 20
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class LoadOrder:
    """Instructions for publisher and consumer of one phase.

    Attributes:
        url: The broker.
        queues: Names of existing durable queues, all of one length; messages go to them in turn.
        rate_per_second: Messages a second.
        seconds: How long to publish.
        body_bytes: Size of each body.
    """

    url: BrokerUrl
    queues: tuple[str, ...]
    rate_per_second: int
    seconds: float
    body_bytes: int

    @property
    def block_messages(self) -> int:
        """Messages of one tick of the publisher."""
        return max(1, round(self.rate_per_second * _TICK_SECONDS))

    @property
    def count(self) -> int:
        """Messages of the phase: whole blocks, at least one."""
        blocks = -(-int(self.rate_per_second * self.seconds) // self.block_messages)
        return max(1, blocks) * self.block_messages


@dataclass(frozen=True, slots=True)
class SpreadResult:
    """Deliveries of the consumer.

    Attributes:
        received: All deliveries.
        distinct: Different messages among them.
        cpu_seconds: CPU that the process used.
    """

    received: int
    distinct: int
    cpu_seconds: float


def publish_spread(start_line: StartLine, order: LoadOrder, counters: Counters) -> PublishResult:
    """Publish in a process of its own, at a fixed rate and with confirms.

    Raises:
        OSError: The broker went away.
        BenchError: The broker read or sent nothing for STALL_SECONDS_MAX, or something unexpected.
    """
    blocks = SpreadBlocks(
        PUBLISH_CHANNEL,
        order.queues,
        body_bytes=order.body_bytes,
        block_messages=order.block_messages,
    )
    window = ConfirmWindow()
    with Connection(order.url, PUBLISH_CHANNEL) as connection:
        connection.select_confirms()
        sharpen_timers()
        start_line.wait()
        start_ns = time.monotonic_ns()
        pace = Pace(connection, blocks, window)
        pace.publish(order.count, order.rate_per_second, counters)
        end_ns = time.monotonic_ns()
        connection.close()
    return PublishResult(
        published=order.count,
        confirmed=window.confirmed,
        nacked=window.nacked,
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_seconds=start_line.cpu_seconds(),
        late_ns_max=pace.late_ns_max,
        confirm_latencies_ns=tuple(pace.confirm_latencies_ns),
    )


def consume_spread(start_line: StartLine, order: LoadOrder, counters: Counters) -> SpreadResult:
    """Consume all queues in a process of its own, until `counters.expected` messages have come.

    One channel has a consumer of each queue. It stops early if nothing comes for IDLE_SECONDS_MAX
    after the publisher has finished.

    Raises:
        OSError: The broker went away.
        BenchError: The broker sent something unexpected.
    """
    with Connection(order.url, CONSUME_CHANNEL) as connection:
        qos = struct.pack(">IHB", 0, _PREFETCH, 0)
        connection.ask(Request(method_frame(CONSUME_CHANNEL, BASIC, 10, qos), (BASIC, 11)))
        connection.ask_pipelined([_consume_request(queue) for queue in order.queues])
        if connection.take_unread():
            raise BenchError("a queue has messages of an earlier phase")
        connection.limit_read(_LOOK_SECONDS)
        deliveries = _Deliveries(connection, order)
        start_line.wait()
        deliveries.read_all(counters)
        cpu_seconds = start_line.cpu_seconds()
        deliveries.acknowledge()
        connection.close()
    return SpreadResult(deliveries.received, deliveries.seen.count(1), cpu_seconds)


def _consume_request(queue: str) -> Request:
    # Tags of one length make all deliveries of one size.
    named = b"\0\0" + short_string(queue) + short_string(queue) + b"\0"
    return Request(method_frame(CONSUME_CHANNEL, BASIC, 20, named + EMPTY_TABLE), (BASIC, 21))


class _Deliveries:
    """Counts and acknowledges deliveries that have the same size, whatever queue they are of.

    Attributes:
        received: Complete deliveries so far.
        seen: One byte for each message of the phase; 1 when it has come.
    """

    def __init__(self, connection: Connection, order: LoadOrder) -> None:
        self.received = 0
        self.seen = bytearray(order.count)
        self._connection = connection
        self._block_messages = order.block_messages
        self._record: struct.Struct | None = None
        self._acked = 0
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0

    def read_all(self, counters: Counters) -> None:
        """Read until the expected messages have come, or until nothing comes any more."""
        moved_ns = time.monotonic_ns()
        while True:
            counters.received.value = self.received
            expected = counters.expected.value
            if expected != UNKNOWN and (
                self.received >= expected or time.monotonic_ns() - moved_ns > IDLE_SECONDS_MAX * 1e9
            ):
                return
            try:
                got = self._connection.socket.recv_into(self._buffer[self._filled :])
            except BlockingIOError:
                self.acknowledge()
                continue
            if not got:
                raise BenchError("the broker closed the connection")
            self._filled += got
            self._count()
            moved_ns = time.monotonic_ns()
            if self.received - self._acked >= _ACK_EVERY:
                self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge all deliveries so far."""
        if self.received > self._acked:
            self._connection.send(acknowledge(CONSUME_CHANNEL, self.received))
            self._acked = self.received

    def _count(self) -> None:
        if self._record is None:
            layout = DeliveryLayout.try_learn(self._buffer[: self._filled])
            if layout is None:
                return
            rest_bytes = layout.delivery_bytes - layout.body_position - FIELDS_BYTES - 1
            self._record = struct.Struct(f">{layout.body_position}x{FIELDS[1:]}{rest_bytes}xB")
        count, rest = divmod(self._filled, self._record.size)
        end = self._filled - rest
        for _, index, block, _, last in self._record.iter_unpack(self._buffer[:end]):
            number = block * self._block_messages + index
            if last != FRAME_END or number >= len(self.seen):
                raise BrokenRhythmError(self.received, f"block {block}, index {index}")
            self.seen[number] = 1
        self._buffer[:rest] = self._buffer[end : self._filled]
        self._filled = rest
        self.received += count
