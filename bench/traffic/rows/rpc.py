"""RPC over direct reply-to: eight callers with one request each, four servers that echo it."""

import select
import struct
import time
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import (
    BASIC,
    EMPTY_TABLE,
    FRAME_END,
    FRAME_OVERHEAD_BYTES,
    METHOD,
    method_frame,
    short_string,
    try_parse_frame,
)
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BenchError, UnexpectedFrameError
from bench.latency import LatencySummary
from bench.process_stats import ServerProbe
from bench.publisher import PUBLISH_CHANNEL
from bench.requests import Request
from bench.running_broker import RunningBroker
from bench.traffic.consuming import BUFFER_BYTES, Verdict, VerifyingReader
from bench.traffic.figures import TrafficFigures
from bench.traffic.frames import (
    NUMBER_BITS,
    SMALLEST_DELIVERY,
    DeliveryScanner,
    SeenMessages,
)
from bench.traffic.message_source import ServiceMessages
from bench.traffic.row import ROUND_TRIP, TrafficEffort, TrafficRow
from bench.traffic.topology import Topology
from bench.worker import Counters, StartLine
from bench.workers import Workers

_CALLERS: Final = 8
_SERVERS: Final = 4
_PREFETCH: Final = 50
_REPLY_TO: Final = "amq.rabbitmq.reply-to"
_REPLY_TO_DOT: Final = f"{_REPLY_TO}.".encode()
_DELIVER: Final = struct.pack(">HH", BASIC, 60)
_SIZE: Final = struct.Struct(">I")
_SIZE_AT: Final = 3
_METHOD_AT: Final = 7
_PUBLISH: Final = struct.Struct(">BHIHHHB")
_PUBLISH_END: Final = bytes((0, FRAME_END))
_ACK_START: Final = struct.pack(">BHIHH", METHOD, PUBLISH_CHANNEL, 13, BASIC, 80)
_ACK_END: Final = bytes((0, FRAME_END))
_READ_BYTES: Final = 1 << 18
_LOOK_SECONDS: Final = 0.02
_WAIT_SECONDS_MAX: Final = 30
_TOPOLOGY: Final = Topology(("bench-rpc",), kind="direct", is_durable=False)


@dataclass(frozen=True, slots=True)
class CallOrder:
    """Instructions for the callers.

    Attributes:
        url: The broker.
        seed: Seed of the requests.
        seconds: How long to call.
    """

    url: BrokerUrl
    seed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CallResult:
    """Round trips of all callers.

    Attributes:
        calls: Requests sent.
        verdict: What the callers found in the answers.
        seconds: Time from the first request to the last answer.
        cpu_seconds: CPU that the process used.
        latency: Time from each request to its answer.
    """

    calls: int
    verdict: Verdict
    seconds: float
    cpu_seconds: float
    latency: LatencySummary | None


def call(start_line: StartLine, order: CallOrder) -> CallResult:
    """Call in a process of its own; each caller waits for the answer to its request.

    Raises:
        OSError: The broker went away.
        BenchError: An answer is missing, or the broker sent something unexpected.
    """
    source = ServiceMessages(
        "", is_persistent=False, routing_key=_TOPOLOGY.queues[0], reply_to=_REPLY_TO
    )
    corpus = source.encode_corpus(order.seed)
    seen = SeenMessages(_CALLERS)
    latencies_ns = array("q")
    calls = [0] * _CALLERS
    with ExitStack() as stack:
        readers: dict[int, VerifyingReader] = {}
        numbers: dict[int, int] = {}
        for number in range(_CALLERS):
            connection = stack.enter_context(Connection(order.url, PUBLISH_CHANNEL))
            connection.ask(_consume_replies())
            scanner = DeliveryScanner(BUFFER_BYTES, PUBLISH_CHANNEL, seen, 0, 0)
            descriptor = connection.socket.fileno()
            readers[descriptor] = VerifyingReader(connection, scanner)
            numbers[descriptor] = number

        def send_request(descriptor: int) -> int:
            number = numbers[descriptor]
            share = corpus.count // _CALLERS
            serial = number << NUMBER_BITS | calls[number]
            now_ns = time.monotonic_ns()
            at = number * share + calls[number] % share
            octets = corpus.renew(at, 1, serial, order.seed, now_ns, time.time_ns())
            calls[number] += 1
            readers[descriptor].connection.socket.sendall(octets)
            return now_ns

        start_line.wait()
        start = time.monotonic()
        end_ns = time.monotonic_ns() + int(order.seconds * 1e9)
        with select.epoll() as epoll:
            asked_ns = {}
            for descriptor in readers:
                epoll.register(descriptor, select.EPOLLIN)
                asked_ns[descriptor] = send_request(descriptor)
            while asked_ns:
                ready = epoll.poll(_WAIT_SECONDS_MAX)
                if not ready:
                    raise BenchError(f"no call had an answer for {_WAIT_SECONDS_MAX} s")
                for descriptor, _ in ready:
                    if not readers[descriptor].read():
                        continue
                    now_ns = time.monotonic_ns()
                    latencies_ns.append(now_ns - asked_ns[descriptor])
                    if now_ns >= end_ns:
                        del asked_ns[descriptor]
                    else:
                        asked_ns[descriptor] = send_request(descriptor)
        seconds = time.monotonic() - start
        cpu_seconds = start_line.cpu_seconds()
        for each in readers.values():
            each.connection.close()
    return CallResult(
        sum(calls),
        Verdict.of([each.scanner for each in readers.values()], [seen]),
        seconds,
        cpu_seconds,
        LatencySummary.of(latencies_ns),
    )


def serve(start_line: StartLine, url: BrokerUrl, counters: Counters) -> float:
    """Echo requests in a process of its own until `counters.expected` is set; returns its CPU.

    Raises:
        OSError: The broker went away.
        BenchError: The broker sent something unexpected.
    """
    with ExitStack() as stack, select.epoll() as epoll:
        servers: dict[int, tuple[Connection, bytearray]] = {}
        for _ in range(_SERVERS):
            connection = stack.enter_context(Connection(url, PUBLISH_CHANNEL))
            connection.start_consumer(_TOPOLOGY.queues[0], _PREFETCH)
            servers[connection.socket.fileno()] = connection, bytearray(connection.take_unread())
            epoll.register(connection.socket.fileno(), select.EPOLLIN)
        start_line.wait()
        while counters.expected.value < 0:
            for descriptor, _ in epoll.poll(_LOOK_SECONDS):
                connection, unread = servers[descriptor]
                received = connection.socket.recv(_READ_BYTES)
                if not received:
                    raise BenchError("the broker closed a server's connection")
                unread += received
                _echo_all(connection, unread)
        cpu_seconds = start_line.cpu_seconds()
        for connection, _ in servers.values():
            connection.close()
    return cpu_seconds


def _echo_all(connection: Connection, unread: bytearray) -> None:
    """Answer the complete requests in a buffer, and remove them from it.

    An answer has the request's header and body, octet by octet: both have the same channel.
    """
    answers = []
    at = 0
    while len(unread) - at >= SMALLEST_DELIVERY:
        header_at = at + FRAME_OVERHEAD_BYTES + _SIZE.unpack_from(unread, at + _SIZE_AT)[0]
        if header_at + FRAME_OVERHEAD_BYTES > len(unread):
            break
        body_at = header_at + FRAME_OVERHEAD_BYTES
        body_at += _SIZE.unpack_from(unread, header_at + _SIZE_AT)[0]
        if body_at + FRAME_OVERHEAD_BYTES > len(unread):
            break
        end = body_at + FRAME_OVERHEAD_BYTES + _SIZE.unpack_from(unread, body_at + _SIZE_AT)[0]
        if end > len(unread):
            break
        answers.append(_echo(unread, at, header_at, end))
        at = end
    if answers:
        del unread[:at]
        connection.send(b"".join(answers))


def _echo(unread: bytearray, at: int, header_at: int, end: int) -> bytes:
    """Encode the answer to a request, to its reply-to, and the ack."""
    if unread[at + _METHOD_AT : at + _METHOD_AT + 4] != _DELIVER:
        parsed = try_parse_frame(unread, at)
        raise UnexpectedFrameError(parsed.describe() if parsed else "half a frame", "a request")
    found = unread.find(_REPLY_TO_DOT, header_at, end)
    if found < 0:
        raise BenchError("a request came without the address that its reply has to go to")
    reply_to = unread[found - 1 : found + unread[found - 1]]
    tag_at = at + _METHOD_AT + 5 + unread[at + _METHOD_AT + 4]
    return b"".join(
        (
            _PUBLISH.pack(METHOD, PUBLISH_CHANNEL, len(reply_to) + 8, BASIC, 40, 0, 0),
            reply_to,
            _PUBLISH_END,
            unread[header_at:end],
            _ACK_START,
            unread[tag_at : tag_at + 8],
            _ACK_END,
        )
    )


def _consume_replies() -> Request:
    names = b"\0\0" + short_string(_REPLY_TO) + short_string("replies") + b"\2"
    return Request(method_frame(PUBLISH_CHANNEL, BASIC, 20, names + EMPTY_TABLE), (BASIC, 21))


def _measure(broker: RunningBroker, effort: TrafficEffort) -> TrafficFigures:
    (queue,) = _TOPOLOGY.queues
    with _TOPOLOGY.declared(broker.url) as connection:
        counters = Counters()
        probe = ServerProbe(broker.pid)
        with Workers(probe.sample) as workers:
            servers = workers.start(serve, broker.url, counters)
            order = CallOrder(broker.url, effort.seed, effort.seconds)
            callers = workers.start(call, order)
            probe.start()
            servers.go()
            callers.go()
            found = workers.wait_for(callers)
            server_cpu_seconds = probe.cpu_seconds()
            counters.expected.value = found.calls
            cpu_seconds = (found.cpu_seconds, workers.wait_for(servers))
        others_cores = probe.others_cores(sum(cpu_seconds))
        left = connection.count_ready(queue)
    verdict = found.verdict
    return TrafficFigures(
        messages=verdict.received,
        seconds=found.seconds,
        lost=abs(found.calls - verdict.distinct) + left,
        repeated=verdict.repeated,
        corrupt=verdict.corrupt,
        disordered=verdict.disordered,
        latency=found.latency,
        server_cpu_seconds=server_cpu_seconds,
        generator_cpu_seconds=cpu_seconds,
        others_cores=others_cores,
        seed=effort.seed,
    )


ROWS: Final = (
    TrafficRow(
        "rpc",
        "RPC over direct reply-to: 8 callers that wait for each answer, 4 servers that echo, "
        "transient, an ack each",
        _measure,
        ROUND_TRIP,
        unit="calls/s",
    ),
)
