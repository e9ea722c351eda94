"""How many durable definitions a second a broker takes in: queues, exchanges, bindings.

    python -m bench.declares [--count 5000] [--brokers ours,rabbitmq]

Declares durable queues and exchanges, binds and deletes them: each request sent when the one
before it is answered ("one by one"), and all of them sent at once ("pipelined"), over one
connection and over several. An answer promises that the definition survives a power cut, so this
measures the disk as much as the broker. Every answer is checked.
"""

import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from bench.amqp_frames import FRAME_OVERHEAD_BYTES, method_frame, parse_frames, short_string
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BenchError, UnexpectedFrameError
from bench.our_server import start_our_server
from bench.rabbitmq import start_rabbitmq
from bench.running_broker import RunningBroker

_CHANNEL: Final = 1
_NO_TABLE: Final = struct.pack(">I", 0)
_DURABLE: Final = b"\x02"
_Starter = Callable[[str, Path], AbstractContextManager[RunningBroker]]
_STARTERS: Final[Mapping[str, _Starter]] = {"ours": start_our_server, "rabbitmq": start_rabbitmq}


class Request(NamedTuple):
    """One method that a broker answers.

    Attributes:
        octets: Its frame.
        answer: Class and method number of its answer.
    """

    octets: bytes
    answer: tuple[int, int]


def declare_queue(number: int) -> Request:
    """Ask for a durable queue."""
    arguments = b"\0\0" + short_string(f"q{number}") + _DURABLE + _NO_TABLE
    return Request(method_frame(_CHANNEL, 50, 10, arguments), (50, 11))


def declare_exchange(number: int) -> Request:
    """Ask for a durable direct exchange."""
    name, kind = short_string(f"x{number}"), short_string("direct")
    arguments = b"\0\0" + name + kind + _DURABLE + _NO_TABLE
    return Request(method_frame(_CHANNEL, 40, 10, arguments), (40, 11))


def bind_queue(number: int) -> Request:
    """Ask for a binding between an exchange and a queue of the same number."""
    names = short_string(f"q{number}") + short_string(f"x{number}") + short_string("key")
    return Request(method_frame(_CHANNEL, 50, 20, b"\0\0" + names + b"\0" + _NO_TABLE), (50, 21))


def unbind_queue(number: int) -> Request:
    """Ask for that binding to go."""
    names = short_string(f"q{number}") + short_string(f"x{number}") + short_string("key")
    return Request(method_frame(_CHANNEL, 50, 50, b"\0\0" + names + _NO_TABLE), (50, 51))


def delete_exchange(number: int) -> Request:
    """Ask for an exchange to go."""
    arguments = b"\0\0" + short_string(f"x{number}") + b"\0"
    return Request(method_frame(_CHANNEL, 40, 20, arguments), (40, 21))


def delete_queue(number: int) -> Request:
    """Ask for a queue to go."""
    arguments = b"\0\0" + short_string(f"q{number}") + b"\0"
    return Request(method_frame(_CHANNEL, 50, 40, arguments), (50, 41))


STEPS: Final[tuple[tuple[str, Callable[[int], Request]], ...]] = (
    ("queue.declare", declare_queue),
    ("exchange.declare", declare_exchange),
    ("queue.bind", bind_queue),
    ("queue.unbind", unbind_queue),
    ("exchange.delete", delete_exchange),
    ("queue.delete", delete_queue),
)
"""In this order nothing is left at the end."""


def send_one_by_one(connection: Connection, requests: Sequence[Request]) -> None:
    """Send each request when the one before it is answered."""
    for request in requests:
        connection.send(request.octets)
        _await_answers(connection, request.answer, 1)


def send_pipelined(connection: Connection, requests: Sequence[Request]) -> None:
    """Send all requests, and read their answers meanwhile."""
    octets = b"".join(request.octets for request in requests)
    sender = threading.Thread(target=connection.send, args=(octets,), name="sender")
    sender.start()
    try:
        _await_answers(connection, requests[0].answer, len(requests))
    finally:
        sender.join()


def _await_answers(connection: Connection, answer: tuple[int, int], count: int) -> None:
    octets = b""
    while count:
        octets += connection.receive()
        used = 0
        for frame in parse_frames(octets):
            used += len(frame.payload) + FRAME_OVERHEAD_BYTES
            if frame.method_id != answer:
                raise UnexpectedFrameError(frame.describe(), f"method {answer}")
            count -= 1
        octets = octets[used:]


def measure(
    url: BrokerUrl,
    make: Callable[[int], Request],
    send: Callable[[Connection, Sequence[Request]], None],
    *,
    count: int,
    connections: int,
) -> float:
    """Send requests over some connections and return how many a second were answered.

    Args:
        url: Where to.
        make: Makes the request of a number.
        send: Sends the requests of one connection and returns when they are answered.
        count: Requests in all.
        connections: Over how many connections.

    Raises:
        BenchError: A request was refused or not answered.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(Connection(url, _CHANNEL)) for _ in range(connections)]
        failures: list[BaseException] = []

        def work(at: int) -> None:
            try:
                send(opened[at], [make(number) for number in range(at, count, connections)])
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                failures.append(error)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(connections)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
    if failures:
        raise failures[0]
    return count / seconds


@click.command()
@click.option("--count", type=click.IntRange(1), default=5000, show_default=True)
@click.option("--connections", type=click.IntRange(1), default=8, show_default=True)
@click.option(
    "--brokers",
    default="ours,rabbitmq",
    show_default=True,
    help="Which to start and measure in turn.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the brokers keep their data: a disk.  [default: the current directory]",
)
def main(count: int, connections: int, brokers: str, data_dir: Path | None) -> None:
    """Measure declares, binds and deletes of durable definitions, answers a second."""
    ways = (
        ("one by one", send_one_by_one, 1),
        (f"one by one, {connections} connections", send_one_by_one, connections),
        ("pipelined", send_pipelined, 1),
        (f"pipelined, {connections} connections", send_pipelined, connections),
    )
    figures: dict[str, dict[tuple[str, str], float]] = {}
    for broker in brokers.split(","):
        figures[broker] = {}
        with _started(broker, data_dir) as url:
            for title, send, over in ways:
                for step, make in STEPS:
                    try:
                        rate = measure(url, make, send, count=count, connections=over)
                    except BenchError as error:
                        raise click.ClickException(f"{broker}: {step}: {error}") from error
                    figures[broker][title, step] = rate
                    click.echo(f"{broker:>10}  {title:<28}{step:<18}{rate:>9,.0f}/s")
    if len(figures) == 2:
        one, other = figures
        for (title, step), rate in figures[one].items():
            ratio = rate / figures[other][title, step]
            click.echo(f"{one}/{other}  {title:<28}{step:<18}{ratio:>9.2f}")


@contextmanager
def _started(broker: str, data_dir: Path | None) -> Iterator[BrokerUrl]:
    starter = _STARTERS.get(broker)
    if starter is None:
        raise click.UsageError(f"--brokers: '{broker}' is none of {', '.join(_STARTERS)}")
    with (
        tempfile.TemporaryDirectory(prefix="declares-", dir=data_dir or Path.cwd()) as name,
        starter(broker, Path(name)) as running,
    ):
        yield running.url


if __name__ == "__main__":
    main()
