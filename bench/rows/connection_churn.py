"""How many connections a second a broker opens and closes: handshake, one channel, clean close."""

import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.amqp_frames import (
    FRAME_OVERHEAD_BYTES,
    Frame,
    long_string,
    method_frame,
    parse_frames,
    short_string,
)
from bench.broker_url import BrokerUrl
from bench.connection import STALL_SECONDS_MAX
from bench.errors import BenchError, UnexpectedFrameError
from bench.process_stats import ServerProbe
from bench.rows.effort import Effort
from bench.rows.experiment import Experiment, Findings
from bench.rows.row import Row
from bench.startable_broker import StartableBroker
from bench.worker import StartLine
from bench.workers import Workers

ROW: Final = Row(
    "connections",
    "connections opened and closed, each with a channel, 8 at a time",
    "/s",
    ratio_bar=3,
)

_AT_A_TIME: Final = 8
_SECONDS_MAX: Final = 2.0
_CHANNEL: Final = 1
_READ_BYTES: Final = 8_192
_PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
_CLOSED: Final = (10, 51)


@dataclass(frozen=True, slots=True)
class ChurnResult:
    """What the client did.

    Attributes:
        opened: Connections that it opened.
        closed: Those whose close the broker answered.
        elapsed_seconds: First connect to last answer.
        cpu_seconds: CPU that the client used.
    """

    opened: int
    closed: int
    elapsed_seconds: float
    cpu_seconds: float


class ShortConnection:
    """One connection on its way from the protocol header to close-ok.

    Attributes:
        socket: Its socket, which does not block.
        is_closed: Whether the broker has answered the close; the socket is closed then.
    """

    def __init__(self, url: BrokerUrl) -> None:
        """Connect, and send the protocol header.

        Raises:
            OSError: The broker cannot be reached.
        """
        self.is_closed = False
        self._steps = _steps(url)
        self._unread = b""
        self.socket = socket.create_connection((url.host, url.port), timeout=STALL_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.socket.sendall(_PROTOCOL_HEADER)

    def advance(self) -> None:
        """Read what is there and answer it.

        Raises:
            UnexpectedFrameError: It is not what the protocol has in this place.
            BenchError: The broker closed the connection.
        """
        octets = self.socket.recv(_READ_BYTES)
        if not octets:
            raise BenchError("the broker closed a connection before its close was answered")
        self._unread += octets
        for parsed in parse_frames(self._unread):
            self._unread = self._unread[FRAME_OVERHEAD_BYTES + len(parsed.payload) :]
            expected, answer = self._steps.pop(0)
            if parsed.method_id != expected:
                raise UnexpectedFrameError(parsed.describe(), f"method {expected}")
            if expected == _CLOSED:
                self.is_closed = True
                self.socket.close()
                return
            self.socket.sendall(answer(parsed))


def _steps(url: BrokerUrl) -> list[tuple[tuple[int, int], Callable[[Frame], bytes]]]:
    """Give what the broker says one after the other, and what is answered."""
    plain = long_string(f"\0{url.user}\0{url.password}".encode())
    login = long_string(b"") + short_string("PLAIN") + plain + short_string("en_US")
    vhost = method_frame(0, 10, 40, short_string(url.vhost) + b"\0\0")
    closing = struct.pack(">HBHH", 200, 0, 0, 0)

    def tune(asked: Frame) -> bytes:
        channel_max, frame_bytes_max = struct.unpack_from(">HI", asked.payload, 4)
        arguments = struct.pack(">HIH", channel_max, frame_bytes_max, 0)
        return method_frame(0, 10, 31, arguments) + vhost

    return [
        ((10, 10), lambda _: method_frame(0, 10, 11, login)),
        ((10, 30), tune),
        ((10, 41), lambda _: method_frame(_CHANNEL, 20, 10, b"\0")),
        ((20, 11), lambda _: method_frame(0, 10, 50, closing)),
        (_CLOSED, lambda _: b""),
    ]


def churn(start_line: StartLine, url: BrokerUrl, seconds: float) -> ChurnResult:
    """Open and close connections for some seconds, in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: It broke the protocol, or did not answer for STALL_SECONDS_MAX.
    """
    start_line.wait()
    start = time.monotonic()
    opened = closed = 0
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < _AT_A_TIME and time.monotonic() - start < seconds:
                connection = ShortConnection(url)
                selector.register(connection.socket, selectors.EVENT_READ, connection)
                opened += 1
            if not selector.get_map():
                break
            ready = selector.select(STALL_SECONDS_MAX)
            if not ready:
                raise BenchError(f"no connection got an answer for {STALL_SECONDS_MAX} s")
            for key, _ in ready:
                closed += _advance(selector, key.data)
    return ChurnResult(opened, closed, time.monotonic() - start, start_line.cpu_seconds())


def _advance(selector: selectors.BaseSelector, connection: ShortConnection) -> bool:
    descriptor = connection.socket.fileno()
    connection.advance()
    if connection.is_closed:
        selector.unregister(descriptor)
    return connection.is_closed


def measure_churn(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
        probe = ServerProbe(running.pid)
        with Workers(probe.sample) as workers:
            client = workers.start(churn, running.url, seconds)
            probe.start()
            client.go()
            result = workers.wait_for(client)
    return Findings(
        {ROW.key: result.closed / result.elapsed_seconds},
        result.opened - result.closed,
        probe.others_cores(result.cpu_seconds),
        {
            "closed": result.closed,
            "server_cpu_seconds": probe.cpu_seconds(),
            "client_cpu_seconds": result.cpu_seconds,
        },
    )


CONNECTIONS: Final = Experiment("connections", (ROW,), measure_churn, seconds=4, rabbitmq_seconds=5)
