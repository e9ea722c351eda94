"""The process of the consumers: each has a connection and a queue, and verifies every message."""

import select
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import parse_frames
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import IDLE_SECONDS_MAX
from bench.delivery_counter import CONSUME_CHANNEL
from bench.errors import BenchError, UnexpectedFrameError
from bench.latency import LatencySummary
from bench.traffic.frames import DeliveryScanner, SeenMessages
from bench.worker import UNKNOWN, Counters, StartLine

BUFFER_BYTES: Final = 1 << 18
"""Size of a consumer's read buffer, unless its messages are larger."""
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class ConsumeOrder:
    """Instructions for the consumers of one process.

    Attributes:
        url: The broker.
        queues: Names of existing queues; each gets one consumer with a connection of its own.
        prefetch: Most deliveries without an ack, for each consumer; 0 to consume without acks.
        publishers: Number of publishers.
        phase: Phase of the run, as in `PublishOrder`.
        lead: Octets before the digits in each body.
        buffer_bytes: Size of each read buffer; more than the largest delivery.
        has_copies: Whether each queue gets all messages; if not, each message has one queue.
        idle_seconds: Longest wait for the next delivery after the publishers have finished.
    """

    url: BrokerUrl
    queues: tuple[str, ...]
    prefetch: int
    publishers: int
    phase: int
    lead: int = 0
    buffer_bytes: int = BUFFER_BYTES
    has_copies: bool = False
    idle_seconds: float = IDLE_SECONDS_MAX


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the consumers found.

    Attributes:
        received: Deliveries.
        distinct: Different messages; with copies, the sum of all queues.
        corrupt: Deliveries whose digest is wrong.
        repeated: Deliveries of a message that had arrived before.
        disordered: Deliveries behind a later message of the same publisher.
    """

    received: int
    distinct: int
    corrupt: int
    repeated: int
    disordered: int

    @classmethod
    def of(cls, scanners: Sequence[DeliveryScanner], seen: Sequence[SeenMessages]) -> "Verdict":
        """Return the sums of all consumers."""
        return cls(
            received=sum(each.received for each in scanners),
            distinct=sum(each.distinct for each in seen),
            corrupt=sum(each.corrupt for each in scanners),
            repeated=sum(each.repeated for each in scanners),
            disordered=sum(each.disordered for each in scanners),
        )


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """Deliveries of one process.

    Attributes:
        verdict: What the consumers found.
        start_ns: CLOCK_MONOTONIC at the start of the run.
        end_ns: CLOCK_MONOTONIC at the last delivery; 0 if there was none.
        cpu_seconds: CPU that the process used.
        latency: Time from each publish to the read of the delivery.
    """

    verdict: Verdict
    start_ns: int
    end_ns: int
    cpu_seconds: float
    latency: LatencySummary | None


class VerifyingReader:
    """One connection whose deliveries, or answers to basic.get, are verified.

    Attributes:
        connection: The connection.
        scanner: Verifies its deliveries.
    """

    def __init__(self, connection: Connection, scanner: DeliveryScanner) -> None:
        self.connection = connection
        self.scanner = scanner
        unread = connection.take_unread()
        scanner.view[: len(unread)] = unread
        scanner.filled = len(unread)

    def read(self) -> int:
        """Read the socket once, verify, and return the number of deliveries.

        Raises:
            UnexpectedFrameError: The broker sent something else, such as a close.
            BenchError: The broker closed the connection.
        """
        scanner = self.scanner
        try:
            read_bytes = self.connection.socket.recv_into(scanner.view[scanner.filled :])
        except BlockingIOError:
            return 0
        if not read_bytes:
            raise BenchError("the broker closed a consumer's connection")
        scanner.filled += read_bytes
        return self.scan()

    def scan(self) -> int:
        """Verify what is in the buffer; as `read`."""
        scanner = self.scanner
        count = scanner.scan(time.monotonic_ns())
        if scanner.fault_at >= 0:
            rest = scanner.view[scanner.fault_at : scanner.filled]
            found = next((each.describe() for each in parse_frames(rest)), "half a frame")
            raise UnexpectedFrameError(found, "a delivery")
        return count

    def acknowledge(self) -> None:
        """Send an ack for each delivery of the last read, in one write."""
        # At most `prefetch` acks: a socket always has room for them.
        self.connection.socket.sendall(self.scanner.acks[: self.scanner.ack_bytes])


def consume_traffic(
    start_line: StartLine, order: ConsumeOrder, counters: Counters
) -> ConsumeResult:
    """Consume in a process of its own, until `counters.expected` deliveries have come.

    Stops early if nothing comes for `idle_seconds` after the publishers have finished.

    Raises:
        OSError: The broker went away.
        BenchError: The broker sent something unexpected.
    """
    shared = SeenMessages(order.publishers)
    with ExitStack() as stack:
        readers, marks = [], [] if order.has_copies else [shared]
        for queue in order.queues:
            connection = stack.enter_context(Connection(order.url, CONSUME_CHANNEL))
            connection.start_consumer(queue, order.prefetch)
            seen = shared
            if order.has_copies:
                seen = SeenMessages(order.publishers)
                marks.append(seen)
            scanner = DeliveryScanner(
                order.buffer_bytes, CONSUME_CHANNEL, seen, order.phase, order.lead
            )
            readers.append(VerifyingReader(connection, scanner))
        start_line.wait()
        start_ns = time.monotonic_ns()
        end_ns = _read_until_complete(readers, order, counters)
        cpu_seconds = start_line.cpu_seconds()
        for each in readers:
            each.connection.socket.setblocking(True)
            each.connection.close()
    scanners = [each.scanner for each in readers]
    latencies = array("q")
    for scanner in scanners:
        latencies.extend(scanner.latencies_ns)
    return ConsumeResult(
        Verdict.of(scanners, marks), start_ns, end_ns, cpu_seconds, LatencySummary.of(latencies)
    )


def _read_until_complete(
    readers: Sequence[VerifyingReader], order: ConsumeOrder, counters: Counters
) -> int:
    """Return the time of the last delivery; 0 for none."""
    by_descriptor = {each.connection.socket.fileno(): each for each in readers}
    end_ns, moved_ns = 0, time.monotonic_ns()
    received = 0
    with select.epoll() as epoll:
        for descriptor, each in by_descriptor.items():
            each.connection.socket.setblocking(False)
            epoll.register(descriptor, select.EPOLLIN)
            counted = each.scan()
            if counted and order.prefetch:
                each.acknowledge()
            received += counted
        while True:
            now_ns = time.monotonic_ns()
            expected = counters.expected.value
            if expected != UNKNOWN and (
                received >= expected or now_ns - moved_ns > order.idle_seconds * 1e9
            ):
                return end_ns
            counted = 0
            for descriptor, _ in epoll.poll(_LOOK_SECONDS):
                each = by_descriptor[descriptor]
                found = each.read()
                if found and order.prefetch:
                    each.acknowledge()
                counted += found
            if counted:
                received += counted
                counters.received.value = received
                end_ns = moved_ns = time.monotonic_ns()
