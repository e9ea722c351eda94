"""basic.get with acks at eight connections: each gets one message, acks it, and gets the next."""

import select
import time
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import BASIC, method_frame, short_string
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.delivery_counter import CONSUME_CHANNEL
from bench.errors import BenchError
from bench.latency import LatencySummary
from bench.process_stats import ServerProbe
from bench.running_broker import RunningBroker
from bench.traffic.consuming import BUFFER_BYTES, Verdict, VerifyingReader
from bench.traffic.figures import TrafficFigures
from bench.traffic.frames import DeliveryScanner, SeenMessages
from bench.traffic.message_source import ServiceMessages
from bench.traffic.publishing import PublishOrder, publish_traffic
from bench.traffic.row import ROUND_TRIP, TrafficEffort, TrafficRow
from bench.traffic.topology import Topology
from bench.worker import Counters, StartLine
from bench.workers import run_alone

_CLIENTS: Final = 8
_MESSAGES: Final = 100_000
_SECONDS_MAX: Final = 3.0
_BATCH: Final = 50
_TOPOLOGY: Final = Topology(("bench-gets",), kind="direct")
_LOOK_SECONDS: Final = 1.0
_WAIT_SECONDS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class GetOrder:
    """Instructions for the clients.

    Attributes:
        url: The broker.
        queue: Name of a queue with messages of one publisher, all of them ready.
        seconds: Longest time to get messages.
        count: Messages in the queue.
    """

    url: BrokerUrl
    queue: str
    seconds: float
    count: int


@dataclass(frozen=True, slots=True)
class GetResult:
    """Messages of all clients.

    Attributes:
        verdict: What the clients found. Which of them gets a message is open, so the order of one
            client's messages is that of the queue.
        seconds: Time from the first get to the last answer.
        cpu_seconds: CPU that the process used.
        latency: Time from each get to its answer.
    """

    verdict: Verdict
    seconds: float
    cpu_seconds: float
    latency: LatencySummary | None


def get_traffic(start_line: StartLine, order: GetOrder) -> GetResult:
    """Get messages in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: The queue was empty too early, or the broker sent something unexpected.
    """
    seen = SeenMessages(1)
    get = method_frame(CONSUME_CHANNEL, BASIC, 70, b"\0\0" + short_string(order.queue) + b"\0")
    latencies_ns = array("q")
    with ExitStack() as stack:
        readers = {}
        for _ in range(_CLIENTS):
            connection = stack.enter_context(Connection(order.url, CONSUME_CHANNEL))
            scanner = DeliveryScanner(BUFFER_BYTES, CONSUME_CHANNEL, seen, 0, 0)
            readers[connection.socket.fileno()] = VerifyingReader(connection, scanner)
        start_line.wait()
        start = time.monotonic()
        _get_all(readers, order, get, latencies_ns)
        seconds = time.monotonic() - start
        cpu_seconds = start_line.cpu_seconds()
        for each in readers.values():
            each.connection.socket.setblocking(True)
            each.connection.close_channel()
            each.connection.close()
    scanners = [each.scanner for each in readers.values()]
    return GetResult(
        Verdict.of(scanners, [seen]), seconds, cpu_seconds, LatencySummary.of(latencies_ns)
    )


def _get_all(
    readers: dict[int, VerifyingReader], order: GetOrder, get: bytes, latencies_ns: "array[int]"
) -> None:
    end_ns = time.monotonic_ns() + int(order.seconds * 1e9)
    asked_ns = dict.fromkeys(readers, time.monotonic_ns())
    asked = len(readers)
    with select.epoll() as epoll:
        for descriptor, each in readers.items():
            epoll.register(descriptor, select.EPOLLIN)
            each.connection.send(get)
            each.connection.socket.setblocking(False)
        moved_ns = time.monotonic_ns()
        while asked_ns:
            ready = epoll.poll(_LOOK_SECONDS)
            now_ns = time.monotonic_ns()
            if ready:
                moved_ns = now_ns
            elif now_ns - moved_ns > _WAIT_SECONDS_MAX * 1e9:
                raise BenchError(f"no get had an answer for {_WAIT_SECONDS_MAX} s")
            for descriptor, _ in ready:
                each = readers[descriptor]
                if not each.read():
                    continue
                now_ns = time.monotonic_ns()
                latencies_ns.append(now_ns - asked_ns[descriptor])
                ack = bytes(each.scanner.acks[: each.scanner.ack_bytes])
                if now_ns >= end_ns or asked >= order.count:
                    each.connection.socket.sendall(ack)
                    del asked_ns[descriptor]
                else:
                    asked_ns[descriptor] = now_ns
                    asked += 1
                    each.connection.socket.sendall(ack + get)


def _measure(broker: RunningBroker, effort: TrafficEffort) -> TrafficFigures:
    (queue,) = _TOPOLOGY.queues
    count = max(_CLIENTS, round(_MESSAGES * effort.share)) // _BATCH * _BATCH + _BATCH
    source = ServiceMessages(_TOPOLOGY.exchange, routing_key=queue)
    filling = PublishOrder(
        broker.url, source, effort.seed, 0, 1, window=1000, batch=_BATCH, seconds=0, count=count
    )
    order = GetOrder(broker.url, queue, min(effort.seconds, _SECONDS_MAX), count)
    with _TOPOLOGY.declared(broker.url) as connection:
        sent = run_alone(ServerProbe(None), publish_traffic, filling, Counters())
        probe = ServerProbe(broker.pid)
        found = run_alone(probe, get_traffic, order)
        server_cpu_seconds = probe.cpu_seconds()
        others_cores = probe.others_cores(found.cpu_seconds)
        left = connection.count_ready(queue)
    verdict = found.verdict
    return TrafficFigures(
        messages=verdict.received,
        seconds=found.seconds,
        lost=abs(sent.confirmed - verdict.distinct - left),
        repeated=verdict.repeated,
        corrupt=verdict.corrupt,
        disordered=verdict.disordered,
        latency=found.latency,
        server_cpu_seconds=server_cpu_seconds,
        generator_cpu_seconds=(found.cpu_seconds,),
        others_cores=others_cores,
        seed=effort.seed,
    )


ROWS: Final = (
    TrafficRow(
        "gets-varied",
        "basic.get at 8 connections, each acked in the write of the next, persistent messages",
        _measure,
        ROUND_TRIP,
        unit="gets/s",
    ),
)
