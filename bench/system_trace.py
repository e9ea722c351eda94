"""System calls, context switches and CPU time of lone messages, counted from outside the server.

    python -m bench.message_trace --system

Runs our server as a process of its own, as it is installed, and one client at a time that waits for
each answer. Three legs: a persistent publish with its confirm, its delivery and its ack; a
`basic.get` with its ack; a call with direct reply-to (a request and its reply). For each leg it
prints, for one message, the system calls that `perf stat` counted in all threads of the server, the
voluntary context switches of its threads, and its CPU time. Counting slows the server down by a few
percent; nothing else changes.

Needs `perf` (Debian: linux-perf) and the permission to count system calls.
"""

import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Final

import click

from bench.amqp_frames import (
    BASIC,
    BODY,
    HEADER,
    Frame,
    acknowledge,
    frame,
    method_frame,
    publish_prefix,
    short_string,
    take_frames,
)
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BenchError
from bench.our_server import start_our_server
from bench.running_broker import RunningBroker

_CHANNEL: Final = 1
_BODY: Final = b"x" * 128
_MESSAGES_BEFORE: Final = 500
_MESSAGES: Final = 4000
_CALLS: Final = (
    "read",
    "write",
    "epoll_pwait",
    "futex",
    "pwritev2",
    "pwrite64",
)
"""System calls that have a column; all others are counted together."""
_ALL: Final = "raw_syscalls:sys_enter"
_ENTER: Final = "syscalls:sys_enter_"
_COUNT: Final = re.compile(r"^(\d+),,([\w:]+),", re.MULTILINE)
_SWITCHES: Final = re.compile(r"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
_REPLY_TO: Final = "amq.rabbitmq.reply-to"
_REPLY_TO_FLAG: Final = 1 << 9
_PROPERTIES_AT: Final = 14
"""Position of the properties in a content header: after class, weight, body size and flags."""


@dataclass(frozen=True, slots=True)
class SystemCosts:
    """What one leg costs the system, for one message.

    Attributes:
        calls: System calls by name.
        other_calls: All other system calls.
        switches: Voluntary context switches of the server's threads.
        cpu_us: CPU time of the server in user and kernel mode, in microseconds.
    """

    calls: dict[str, float]
    other_calls: float
    switches: float
    cpu_us: float


def show_system_costs() -> None:
    """Measure all legs against a server of their own, and print a line for each.

    Raises:
        BenchError: `perf` is missing or may not count, or the server did not start.
    """
    if shutil.which("perf") is None:
        raise BenchError("perf is not installed (Debian: linux-perf)")
    click.echo(f"{'':8}" + "".join(f"{call:>12}" for call in (*_CALLS, "other")), nl=False)
    click.echo(f"{'switches':>12}{'cpu_us':>12}")
    legs = (("confirm", _publishes), ("get", _gets), ("call", _calls))
    with (
        tempfile.TemporaryDirectory() as directory,
        start_our_server("ours", Path(directory)) as broker,
    ):
        pid = broker.pid
        assert pid is not None, "the server was started here"
        for name, leg in legs:
            with leg(broker) as run:
                run(_MESSAGES_BEFORE)
                costs = _costs_of(pid, run)
            values = (*costs.calls.values(), costs.other_calls, costs.switches, costs.cpu_us)
            click.echo(f"{name:8}" + "".join(f"{value:12.2f}" for value in values))


def _costs_of(pid: int, run: Callable[[int], None]) -> SystemCosts:
    """Run a leg once while perf counts."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "perf.csv"
        with _counting(pid, output):
            switches, cpu_seconds = _switches(pid), _cpu_seconds(pid)
            run(_MESSAGES)
            switches, cpu_seconds = _switches(pid) - switches, _cpu_seconds(pid) - cpu_seconds
        counts = {event: int(count) for count, event in _COUNT.findall(output.read_text())}
    calls = {call: counts[_ENTER + call] / _MESSAGES for call in _CALLS}
    all_calls = counts[_ALL] / _MESSAGES
    other_calls = all_calls - sum(calls.values())
    return SystemCosts(calls, other_calls, switches / _MESSAGES, cpu_seconds / _MESSAGES * 1e6)


@contextmanager
def _counting(pid: int, output: Path) -> Iterator[None]:
    """Let perf count the system calls of all threads of a process.

    Args:
        pid: Process id.
        output: File that has the counts afterwards.

    Raises:
        BenchError: It may not.
    """
    asks, ask = os.pipe()
    answer, answers = os.pipe()
    events = ",".join((_ALL, *(_ENTER + call for call in _CALLS)))
    command = ["perf", "stat", "-x,", "-e", events, "-p", str(pid), "-o", str(output)]
    # It counts nothing before it is asked to.
    command += ["--delay=-1", f"--control=fd:{asks},{answers}"]
    perf = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(asks, answers)
    )
    os.close(answers)
    os.close(asks)
    try:
        with os.fdopen(ask, "wb", buffering=0) as asking, os.fdopen(answer, "rb") as answering:
            # Without the permission it ends at once; then it is not asked, and does not answer.
            with suppress(BrokenPipeError):
                asking.write(b"enable\n")
            counts = bool(answering.readline())
            if counts:
                yield
    finally:
        perf.send_signal(signal.SIGINT)
        _, errors = perf.communicate()
    if not counts:
        said = errors.decode(errors="replace").strip()
        raise BenchError(f"perf may not count system calls: {said}")


def _switches(pid: int) -> int:
    """Return the voluntary context switches of all threads of a process."""
    statuses = (status.read_text() for status in Path(f"/proc/{pid}/task").glob("*/status"))
    return sum(int(_SWITCHES.findall(status)[0]) for status in statuses)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _await_frames(connection: Connection, count: int) -> list[Frame]:
    """Read until `count` whole frames have come, and return them."""
    received = bytearray(connection.take_unread())
    frames: list[Frame] = []
    while True:
        frames += take_frames(received)
        if len(frames) >= count:
            return frames
        received += connection.receive()


def _publish(queue: str, *, is_persistent: bool = True) -> bytes:
    prefix = publish_prefix(_CHANNEL, "", queue, len(_BODY), is_persistent)
    return prefix + frame(BODY, _CHANNEL, _BODY)


@contextmanager
def _publishes(broker: RunningBroker) -> Iterator[Callable[[int], None]]:
    """Publish with confirm, delivery and ack, one message after the other."""
    publish = _publish("confirmed")
    with Connection(broker.url, _CHANNEL) as publisher, Connection(broker.url, _CHANNEL) as reader:
        publisher.declare_queue("confirmed", True)
        publisher.select_confirms()
        reader.start_consumer("confirmed", 10)
        tags = count(1)

        def run(messages: int) -> None:
            for tag in islice(tags, messages):
                publisher.send(publish)
                _await_frames(publisher, 1)
                _await_frames(reader, 3)
                reader.send(acknowledge(_CHANNEL, tag))

        yield run


@contextmanager
def _gets(broker: RunningBroker) -> Iterator[Callable[[int], None]]:
    """Get ready messages, each with its ack."""
    get = method_frame(_CHANNEL, BASIC, 70, bytes(2) + short_string("got") + b"\0")
    with Connection(broker.url, _CHANNEL) as client:
        client.declare_queue("got", True)
        client.select_confirms()
        for _ in range(_MESSAGES_BEFORE + _MESSAGES):
            client.send(_publish("got"))
            _await_frames(client, 1)
        tags = count(1)

        def run(messages: int) -> None:
            for tag in islice(tags, messages):
                client.send(get)
                _await_frames(client, 3)
                client.send(acknowledge(_CHANNEL, tag))

        yield run


@contextmanager
def calls_to(url: BrokerUrl) -> Iterator[Callable[[int], None]]:
    """Yield what calls a server with direct reply-to: requests to its queue, with their replies.

    Args:
        url: Broker of both clients.
    """
    asked = b"\0\0" + short_string("") + short_string("asked") + b"\0"
    sizes = struct.pack(">HHQH", BASIC, 0, len(_BODY), _REPLY_TO_FLAG)
    request = (
        method_frame(_CHANNEL, BASIC, 40, asked)
        + frame(HEADER, _CHANNEL, sizes + short_string(_REPLY_TO))
        + frame(BODY, _CHANNEL, _BODY)
    )
    with Connection(url, _CHANNEL) as caller, Connection(url, _CHANNEL) as server:
        server.declare_queue("asked", False)
        server.start_consumer("asked", 0)
        caller.start_consumer(_REPLY_TO, 0)
        caller.send(request)
        _, header, _ = _await_frames(server, 3)
        length = header.payload[_PROPERTIES_AT]
        key = header.payload[_PROPERTIES_AT + 1 : _PROPERTIES_AT + 1 + length].decode()
        reply = _publish(key, is_persistent=False)
        server.send(reply)
        _await_frames(caller, 3)

        def run(messages: int) -> None:
            for _ in range(messages):
                caller.send(request)
                _await_frames(server, 3)
                server.send(reply)
                _await_frames(caller, 3)

        yield run


def _calls(broker: RunningBroker) -> AbstractContextManager[Callable[[int], None]]:
    return calls_to(broker.url)
