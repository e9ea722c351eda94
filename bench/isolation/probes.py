"""The process of the probes: two clients that measure their latencies during an attack.

Both publish at fixed times, even if the broker has not answered the messages before. A round trip
counts from the time when it was due, not from when it was sent (no coordinated omission).
"""

import gc
import select
import struct
import time
from collections import deque
from collections.abc import Iterator
from ctypes import c_bool
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue
from typing import Final

from bench.amqp_frames import BASIC, take_frames
from bench.broker_url import BrokerUrl
from bench.errors import BenchError, UnexpectedFrameError
from bench.isolation.client import Client
from bench.isolation.methods import (
    CONSUMED,
    QUEUE_DECLARED,
    consume,
    declare_queue,
    publish,
)

INTERVAL_NS: Final = 5_000_000

_ACK: Final = (BASIC, 80)
_DELIVER: Final = (BASIC, 60)
_WARM_UPS: Final = 50
_START_NS: Final = 20_000_000
_STOP_SECONDS_MAX: Final = 15.0
LAST_ANSWER_SECONDS_MAX: Final = 5.0
"""Longest time for which the probes wait for their last answers."""


class StopSign:
    """A flag in shared memory that stops the process of the probes."""

    def __init__(self) -> None:
        self._value = RawValue(c_bool, False)

    @property
    def is_set(self) -> bool:
        """Whether the probes are to stop."""
        return bool(self._value.value)

    def set(self) -> None:
        """Stop the probes."""
        self._value.value = True


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Round trips of a probe.

    Attributes:
        due_ns: Times when the round trips were due (`time.monotonic_ns`), one each INTERVAL_NS.
        latencies_ns: Times from then to the answer, or to the end without an answer.
        unanswered: Number of the last round trips, which have no answer.
        late_ns_max: Longest delay of a send, for which the probe did not get the CPU.
    """

    due_ns: list[int]
    latencies_ns: list[int]
    unanswered: int
    late_ns_max: int


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """Round trips of both probes.

    Attributes:
        loop: Transient messages to a queue of the probe, up to their delivery without acks.
        durable: Persistent messages to a durable queue, up to their confirms.
        cpu_seconds: CPU that the probes used.
    """

    loop: RoundTrips
    durable: RoundTrips
    cpu_seconds: float


class _Probe:
    """One probe: sends messages one by one, and takes the answers in order."""

    def __init__(self, client: Client, message: bytes, answers_are_confirms: bool) -> None:
        self.client = client
        self._message = message
        self._answers_are_confirms = answers_are_confirms
        self._unread = bytearray()
        self._sent = 0
        self._waiting: deque[int] = deque()
        self.due_ns: list[int] = []
        self.latencies_ns: list[int] = []
        self.late_ns_max = 0

    @property
    def unanswered(self) -> int:
        return len(self._waiting)

    def warm_up(self) -> None:
        for _ in range(_WARM_UPS):
            self.send(time.monotonic_ns())
            while self.unanswered:
                self.receive()
        self.latencies_ns.clear()
        self.due_ns.clear()
        self.late_ns_max = 0

    def send(self, due_ns: int) -> None:
        self.due_ns.append(due_ns)
        self._waiting.append(due_ns)
        self._sent += 1
        self.late_ns_max = max(self.late_ns_max, time.monotonic_ns() - due_ns)
        self.client.send(self._message)

    def receive(self) -> None:
        octets = self.client.socket.recv(65_536)
        now_ns = time.monotonic_ns()
        if not octets:
            raise BenchError("the broker closed the connection of a probe")
        self._unread += octets
        for frame in take_frames(self._unread):
            if self._answers_are_confirms and frame.method_id == _ACK:
                number, is_multiple = struct.unpack_from(">QB", frame.payload, 4)
                # The confirms of messages to one queue come in order.
                first = self._sent - self.unanswered + 1
                self._answer(number - first + 1 if is_multiple else 1, now_ns)
            elif not self._answers_are_confirms and frame.method_id == _DELIVER:
                self._answer(1, now_ns)
            elif frame.method_id is not None:
                raise UnexpectedFrameError(frame.describe(), "the answer to a probe")

    def finish(self) -> RoundTrips:
        now_ns = time.monotonic_ns()
        latencies_ns = self.latencies_ns + [now_ns - due_ns for due_ns in self._waiting]
        return RoundTrips(self.due_ns, latencies_ns, self.unanswered, self.late_ns_max)

    def _answer(self, count: int, now_ns: int) -> None:
        for _ in range(count):
            self.latencies_ns.append(now_ns - self._waiting.popleft())


def measure_round_trips(
    url: BrokerUrl, stop: StopSign, last_answer_seconds_max: float = LAST_ANSWER_SECONDS_MAX
) -> Iterator[ProbeReport | None]:
    """Connect and report None; measure until the sign is set, and report the round trips.

    Args:
        url: The broker.
        stop: Sign to stop.
        last_answer_seconds_max: Longest wait for answers after the sign.
    """
    loop = _connect_loop(url)
    durable = _connect_durable(url)
    for probe in (loop, durable):
        probe.warm_up()
    gc.collect()
    gc.disable()
    yield None
    cpu_seconds = time.process_time()
    start_ns = time.monotonic_ns() + _START_NS
    due = deque([(start_ns, loop), (start_ns + INTERVAL_NS // 2, durable)])
    by_socket = {probe.client.socket: probe for probe in (loop, durable)}
    sockets = list(by_socket)
    while not stop.is_set:
        due_ns, probe = due[0]
        wait_ns = due_ns - time.monotonic_ns()
        for each in select.select(sockets, [], [], max(0, wait_ns) / 1e9)[0]:
            by_socket[each].receive()
        if time.monotonic_ns() >= due_ns:
            probe.send(due_ns)
            due.popleft()
            due.append((due_ns + INTERVAL_NS, probe))
    deadline = time.monotonic() + last_answer_seconds_max
    while (loop.unanswered or durable.unanswered) and time.monotonic() < deadline:
        for each in select.select(sockets, [], [], 0.1)[0]:
            by_socket[each].receive()
    yield ProbeReport(loop.finish(), durable.finish(), time.process_time() - cpu_seconds)


def _connect_loop(url: BrokerUrl) -> _Probe:
    client = Client(url, _STOP_SECONDS_MAX)
    client.ask([declare_queue("probe-loop", is_exclusive=True)], QUEUE_DECLARED)
    client.ask([consume("probe-loop", "probe", no_ack=True)], CONSUMED)
    return _Probe(client, publish("", "probe-loop"), answers_are_confirms=False)


def _connect_durable(url: BrokerUrl) -> _Probe:
    client = Client(url, _STOP_SECONDS_MAX)
    client.ask([declare_queue("probe-durable", is_durable=True)], QUEUE_DECLARED)
    client.select_confirms()
    message = publish("", "probe-durable", is_persistent=True)
    return _Probe(client, message, answers_are_confirms=True)
