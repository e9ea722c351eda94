"""The process of the consumers: one connection, or several, that count deliveries."""

import selectors
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import EMPTY_TABLE
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.delivery_counter import (
    CONSUME_CHANNEL,
    AllTimed,
    DeliveryCounter,
    LastInOrder,
    SeenMessages,
)
from bench.worker import UNKNOWN, Counters, StartLine

IDLE_SECONDS_MAX: Final = 60.0
"""Longest wait for the next delivery after the publishers have finished."""

READ_BYTES_LEAST: Final = 16_384

_BUFFER_BYTES: Final = 1 << 20
_BUFFER_BYTES_OF_SEVERAL: Final = 1 << 18
_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class ConsumeOrder:
    """Instructions for the consumers of one process.

    Attributes:
        url: The broker.
        queues: Names of existing queues; each gets one consumer with a connection of its own. If
            one name occurs several times, its consumers share the queue.
        block_messages: Messages in a block of the publisher; gives the order of the messages.
        prefetch: Most deliveries without an ack, for each consumer; 0 to consume without acks.
        ack_every: Deliveries for each ack, at most `prefetch`; 1 for an ack without `multiple`.
        is_timed: Whether to read the stamp of every message; for one consumer.
        publishers: Publishers of the shared queue; 1 if each queue has one publisher, in order.
        read_bytes_least: Bytes that each read waits for, less than `prefetch` deliveries have. A
            broker that writes message by message would otherwise wake the consumer for each
            message, and so lose the CPU that it needs itself. A run ends up to 10 ms later.
        arguments: Arguments of `basic.consume`, encoded.
        marks_seconds: Times after the start at which to note the deliveries of each queue.
    """

    url: BrokerUrl
    queues: tuple[str, ...]
    block_messages: int
    prefetch: int = 0
    ack_every: int = 0
    is_timed: bool = False
    publishers: int = 1
    read_bytes_least: int = READ_BYTES_LEAST
    arguments: bytes = EMPTY_TABLE
    marks_seconds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """Deliveries of the consumers of one process.

    Attributes:
        received_of_each: Deliveries of each consumer, each checked or between two checked ones.
        distinct: Different messages among them, where publishers share a queue; otherwise the
            checks already make sure that no message comes twice.
        start_ns: CLOCK_MONOTONIC at the start of the run.
        end_ns: CLOCK_MONOTONIC at the last delivery; 0 if there was none.
        cpu_seconds: CPU that the process used.
        latencies_ns: Time from each message's stamp to its read; empty unless `is_timed`.
        received_at: Deliveries of each consumer at each of the order's marks that was reached.
    """

    received_of_each: tuple[int, ...]
    distinct: int
    start_ns: int
    end_ns: int
    cpu_seconds: float
    latencies_ns: "array[int]"
    received_at: tuple[tuple[int, ...], ...] = ()

    @property
    def received(self) -> int:
        """Deliveries of all consumers."""
        return sum(self.received_of_each)


def consume(start_line: StartLine, order: ConsumeOrder, counters: Counters) -> ConsumeResult:
    """Consume in a process of its own, until `counters.expected` messages are received.

    Stops early if nothing comes for IDLE_SECONDS_MAX after the publishers have finished.

    Raises:
        OSError: The broker went away.
        BrokenRhythmError: A message was lost, repeated or out of order.
        BenchError: The broker sent something unexpected.
    """
    timed = AllTimed(order.block_messages)
    seen = SeenMessages(order.publishers, order.block_messages)
    in_order = timed if order.is_timed else LastInOrder(order.block_messages)
    is_alone = len(order.queues) == 1
    with ExitStack() as stack:
        consumers = []
        for queue in order.queues:
            connection = stack.enter_context(Connection(order.url, CONSUME_CHANNEL))
            connection.start_consumer(queue, order.prefetch, order.arguments)
            connection.limit_read(_LOOK_SECONDS)
            if not order.is_timed:
                connection.read_at_least(order.read_bytes_least)
            consumers.append(
                DeliveryCounter(
                    connection,
                    prefetch=order.prefetch,
                    ack_every=order.ack_every,
                    check=seen if order.publishers > 1 else in_order,
                    buffer_bytes=_BUFFER_BYTES if is_alone else _BUFFER_BYTES_OF_SEVERAL,
                )
            )
        start_line.wait()
        start_ns = time.monotonic_ns()
        end_ns, received_at = _count_until_complete(consumers, order.marks_seconds, counters)
        cpu_seconds = start_line.cpu_seconds()
        for each in consumers:
            each.finish()
    received_of_each = tuple(each.received for each in consumers)
    return ConsumeResult(
        received_of_each=received_of_each,
        distinct=seen.count() if order.publishers > 1 else sum(received_of_each),
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_seconds=cpu_seconds,
        latencies_ns=timed.latencies_ns,
        received_at=tuple(received_at),
    )


def _count_until_complete(
    consumers: Sequence[DeliveryCounter], marks_seconds: Sequence[float], counters: Counters
) -> tuple[int, list[tuple[int, ...]]]:
    """Read until all expected messages have come.

    Returns:
        Time of the last delivery, 0 for none; deliveries of each consumer at each mark.
    """
    end_ns = 0
    start_ns = moved_ns = time.monotonic_ns()
    marks_ns = [start_ns + int(mark * 1e9) for mark in marks_seconds]
    received_at: list[tuple[int, ...]] = []
    received = sum(each.count() for each in consumers)
    if received:
        end_ns = time.monotonic_ns()
    with selectors.DefaultSelector() as selector:
        if len(consumers) > 1:
            for each in consumers:
                each.connection.socket.setblocking(False)
                selector.register(each.connection.socket, selectors.EVENT_READ, each)
        while True:
            counters.received.value = received
            expected = counters.expected.value
            if expected != UNKNOWN and (
                received >= expected or time.monotonic_ns() - moved_ns > IDLE_SECONDS_MAX * 1e9
            ):
                return end_ns, received_at
            ready = consumers  # a single consumer waits in its blocking read
            if len(consumers) > 1:
                # Fewer than `read_bytes_least` bytes make no socket ready: after a wait, all are
                # read, or the last messages of a run would never come.
                ready = [key.data for key, _ in selector.select(_LOOK_SECONDS)] or consumers
            counted = sum(each.read() for each in ready)
            now_ns = time.monotonic_ns()
            if counted:
                received += counted
                moved_ns = end_ns = now_ns
            if marks_ns and now_ns >= marks_ns[0]:
                del marks_ns[0]
                received_at.append(tuple(each.received for each in consumers))
