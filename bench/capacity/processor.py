"""Processor time of the broker for messages that come one at a time, and for idle connections.

At a low rate each message wakes the broker for its publish, its sync, its delivery and its ack. At
full speed a turn does all of that for many messages, and `bench traffic` measures it.
"""

import selectors
import socket
import struct
import time
from contextlib import ExitStack
from typing import Final

from bench import handshake
from bench.amqp_frames import BASIC, FRAME_END, METHOD, Frame, method_frame, take_frames
from bench.broker_url import BrokerUrl
from bench.capacity.messages import ServicePublishes
from bench.confirm_window import ConfirmWindow
from bench.connection import STALL_SECONDS_MAX, Connection
from bench.errors import BenchError, UnexpectedFrameError
from bench.process_stats import ServerProbe
from bench.single_acks import SingleAcks

CHANNEL: Final = 1
HEARTBEAT_SECONDS: Final = 1
"""Interval of the idle connections that are measured, in seconds: a short one, to see a cost."""
_HEARTBEAT: Final = bytes((8, 0, 0, 0, 0, 0, 0, FRAME_END))
_PREFETCH: Final = 100
_READ_BYTES: Final = 65_536
_DELIVER: Final = (BASIC, 60)
_PEERS: Final = 50
_US: Final = 1_000_000


class _Pair:
    """A publisher with confirms, and the consumer of its queue, each on its own connection.

    Attributes:
        publisher: Connection of the publisher.
        consumer: Connection of the consumer.
        delivered: Messages that the consumer got and acknowledged.
    """

    def __init__(self, url: BrokerUrl, number: int, stack: ExitStack) -> None:
        self.delivered = 0
        self._queue = f"pair{number}"
        self._publishes = ServicePublishes(CHANNEL, seed=number)
        self._confirms = ConfirmWindow()
        self._acks = SingleAcks(CHANNEL)
        self._unread = bytearray()
        self.publisher = stack.enter_context(Connection(url, CHANNEL))
        self.publisher.declare_queue(self._queue, durable=True)
        self.publisher.select_confirms()
        self.consumer = stack.enter_context(Connection(url, CHANNEL))
        self.consumer.start_consumer(self._queue, _PREFETCH)

    @property
    def done(self) -> int:
        """Publishes that the broker confirmed, and deliveries: two for each message."""
        return self._confirms.confirmed + self.delivered

    def publish(self) -> None:
        """Send a message; the confirm comes later."""
        self.publisher.send(self._publishes.encode(self._queue).octets)

    def read_confirms(self) -> None:
        """Take what the broker has sent to the publisher."""
        self._confirms.feed(self.publisher.receive())

    def read_deliveries(self) -> None:
        """Take what the broker has sent to the consumer; acknowledge each message."""
        self._unread += self.consumer.receive()
        for each in take_frames(self._unread):
            if each.method_id == _DELIVER:
                self.delivered += 1
                self.consumer.send(self._acks.encode(self.delivered, self.delivered + 1))
            elif each.kind == METHOD:
                raise UnexpectedFrameError(each.describe(), "a delivery")


def measure_lone_messages(url: BrokerUrl, pid: int, rate: int, seconds: float) -> float:
    """Return the microseconds of the broker for a persistent message that comes alone.

    Args:
        url: Address of the broker.
        pid: Its process.
        rate: Messages a second, evenly spread; low enough that the broker is idle between them.
        seconds: How long.

    Raises:
        BenchError: A message was lost, or the broker does not answer.
    """
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        pairs = [_Pair(url, number, stack) for number in range(_PEERS)]
        for pair in pairs:
            publisher, consumer = pair.publisher.socket, pair.consumer.socket
            selector.register(publisher, selectors.EVENT_READ, pair.read_confirms)
            selector.register(consumer, selectors.EVENT_READ, pair.read_deliveries)
        count = round(rate * seconds)
        probe = ServerProbe(pid, has_children=False)
        start = time.monotonic()
        sent = 0
        while (missing := 2 * count - sum(pair.done for pair in pairs)) > 0:
            now = time.monotonic()
            if now > start + seconds + STALL_SECONDS_MAX:
                raise BenchError(f"LOST {missing} confirms or deliveries of {count} messages")
            if sent < count and now >= start + sent / rate:
                pairs[sent % len(pairs)].publish()
                sent += 1
                continue
            wait = start + sent / rate - now if sent < count else 1.0
            for key, _ in selector.select(wait):
                key.data()
        cpu_seconds = probe.cpu_seconds()
        if missing or cpu_seconds is None:
            raise BenchError(f"LOST {missing} of {count} messages")
        return cpu_seconds * _US / count


def measure_heartbeats(url: BrokerUrl, pid: int, connections: int, seconds: float) -> float:
    """Return the microseconds of the broker for one heartbeat interval of an idle connection.

    Args:
        url: Address of the broker.
        pid: Its process.
        connections: Idle connections.
        seconds: How long.

    Raises:
        BenchError: The broker closed a connection.
    """
    with ExitStack() as stack:
        alone = ServerProbe(pid, has_children=False)
        time.sleep(seconds)
        alone_seconds = alone.cpu_seconds() or 0.0
        idle = [stack.enter_context(_connect(url)) for _ in range(connections)]
        probe = ServerProbe(pid, has_children=False)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for each in idle:
                each.sendall(_HEARTBEAT)
            time.sleep(min(left, HEARTBEAT_SECONDS))
        cpu_seconds = (probe.cpu_seconds() or 0.0) - alone_seconds
        if not all(each.recv(_READ_BYTES) for each in idle):
            raise BenchError("the broker closed an idle connection")
        return max(0.0, cpu_seconds) * _US * HEARTBEAT_SECONDS / (connections * seconds)


def _connect(url: BrokerUrl) -> socket.socket:
    """Log in with heartbeats; `Connection` asks for none."""
    connected = socket.create_connection((url.host, url.port), timeout=STALL_SECONDS_MAX)
    unread = bytearray()

    def expect(method_id: tuple[int, int]) -> Frame:
        while not (frames := take_frames(unread)):
            received = connected.recv(_READ_BYTES)
            if not received:
                raise BenchError("the broker closed the connection")
            unread.extend(received)
        if frames[0].method_id != method_id:
            raise UnexpectedFrameError(frames[0].describe(), f"method {method_id}")
        return frames[0]

    connected.sendall(handshake.PROTOCOL_HEADER)
    expect(handshake.START)
    connected.sendall(handshake.start_ok(url))
    tune = expect(handshake.TUNE)
    limits = struct.unpack_from(">HI", tune.payload, 4)
    accepted = method_frame(0, 10, 31, struct.pack(">HIH", *limits, HEARTBEAT_SECONDS))
    connected.sendall(accepted + handshake.open_vhost(url))
    expect(handshake.OPEN_OK)
    return connected
