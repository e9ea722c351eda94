"""Connections a second that a broker opens and closes: handshake, one channel, clean close."""

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench import handshake
from bench.amqp_frames import Frame, take_frames
from bench.broker_url import BrokerUrl
from bench.connection import STALL_SECONDS_MAX
from bench.errors import BenchError, UnexpectedFrameError
from bench.process_stats import ServerProbe
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Experiment, Findings, Row
from bench.worker import StartLine
from bench.workers import run_alone

_AT_A_TIME: Final = 8
_SECONDS_MAX: Final = 2.0
_CHANNEL: Final = 1
_READ_BYTES: Final = 8_192


@dataclass(frozen=True, slots=True)
class ChurnResult:
    """Connections of the client.

    Attributes:
        opened: Connections that the client opened.
        closed: Connections whose close the broker answered.
        elapsed_seconds: Time from the first connect to the last answer.
        cpu_seconds: CPU that the client used.
    """

    opened: int
    closed: int
    elapsed_seconds: float
    cpu_seconds: float


class ShortConnection:
    """One connection between its protocol header and the broker's answer to its close.

    Attributes:
        socket: The non-blocking socket.
        is_closed: Whether the broker has answered the close; the socket is closed then too.
    """

    def __init__(self, url: BrokerUrl) -> None:
        """Connect, and send the protocol header.

        Raises:
            OSError: The broker cannot be reached.
        """
        self.is_closed = False
        self._steps = _steps(url)
        self._unread = bytearray()
        self.socket = socket.create_connection((url.host, url.port), timeout=STALL_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.socket.sendall(handshake.PROTOCOL_HEADER)

    def advance(self) -> None:
        """Read the frames that have arrived, and answer them.

        Raises:
            UnexpectedFrameError: The protocol has another frame in this place.
            BenchError: The broker closed the connection.
        """
        octets = self.socket.recv(_READ_BYTES)
        if not octets:
            raise BenchError("the broker closed a connection before it answered the close")
        self._unread += octets
        for parsed in take_frames(self._unread):
            expected, answer = self._steps.pop(0)
            if parsed.method_id != expected:
                raise UnexpectedFrameError(parsed.describe(), f"method {expected}")
            if expected == handshake.CLOSE_OK:
                self.is_closed = True
                self.socket.close()
                return
            self.socket.sendall(answer(parsed))


def _steps(url: BrokerUrl) -> list[tuple[tuple[int, int], Callable[[Frame], bytes]]]:
    """Return the broker's methods in their order, each with the client's answer."""
    return [
        (handshake.START, lambda _: handshake.start_ok(url)),
        (handshake.TUNE, lambda tune: handshake.tune_ok(tune) + handshake.open_vhost(url)),
        (handshake.OPEN_OK, lambda _: handshake.open_channel(_CHANNEL)),
        (handshake.CHANNEL_OPEN_OK, lambda _: handshake.close_connection()),
        (handshake.CLOSE_OK, lambda _: b""),
    ]


def churn(start_line: StartLine, url: BrokerUrl, seconds: float) -> ChurnResult:
    """Open and close connections for some seconds, in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: The broker broke the protocol, or did not answer for STALL_SECONDS_MAX.
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


def _measure(broker: StartableBroker, effort: Effort) -> Findings:
    running = broker.running()
    for seconds in (effort.warm_up_seconds, min(effort.seconds, _SECONDS_MAX)):
        probe = ServerProbe(running.pid)
        result = run_alone(probe, churn, running.url, seconds)
    return Findings(
        {"connections": result.closed / result.elapsed_seconds},
        result.opened - result.closed,
        probe.others_cores(result.cpu_seconds),
        {
            "closed": result.closed,
            "server_cpu_seconds": probe.cpu_seconds(),
            "client_cpu_seconds": result.cpu_seconds,
        },
    )


EXPERIMENTS: Final = (
    Experiment(
        "connections",
        (
            Row(
                "connections",
                "connections opened and closed, each with a channel, 8 at a time",
                "/s",
                ratio_bar=3,
            ),
        ),
        _measure,
        seconds=4,
        rabbitmq_seconds=5,
    ),
)
