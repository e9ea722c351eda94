"""How long a server with many durable queues takes to start, and to stop.

    python -m bench.many_queues [--queues 20000] [--messages 3] [--runs 3] [--cold]
    python -m bench.many_queues --queues 1000 --messages 2500 --body-bytes 4096     10 GB

Declares durable queues, confirms some messages in each, and kills the server: the first start finds
queues that no stop has tidied up. Then it starts the server again and again: after a clean stop,
after SIGKILL under a load of publishes to all queues, in turn, and after another one, with the
`end` files of before the load, as a power cut leaves them. It prints the seconds and the
CPU seconds (user and system) until the server listens, the seconds from then to the first confirm,
and those of each clean stop. After each start it counts the messages of some queues: if one that
was confirmed is missing, the figures do not count.
"""

import itertools
import os
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.message_body import BODY_BYTES_MAX, BODY_BYTES_MIN
from bench.our_server import start_our_server
from bench.publish_block import PublishBlock
from bench.requests import declare_queue
from bench.running_broker import RunningBroker

_CHANNEL: Final = 1
_COUNTED_QUEUES: Final = 100
"""Queues whose messages are counted after each start."""
_BLOCK_MESSAGES: Final = 100
"""Messages to one queue before the next one gets some."""
_UNCONFIRMED_MAX: Final = 20_000
_LOAD_SECONDS: Final = 1.0

_AFTER_FILL: Final = "start after SIGKILL, never stopped before"
_AFTER_STOP: Final = "start after a clean stop"
_AFTER_KILL: Final = "start after SIGKILL under load"
_AFTER_POWER_CUT: Final = "start with the `end` files of before the load"
_FIRST_CONFIRM: Final = "from then to the first confirm"
_STOP: Final = "clean stop"


class _Costs:
    """Seconds and CPU seconds of each step, in each run."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[tuple[float, float]]] = {}

    def add(self, step: str, seconds: float, cpu_seconds: float) -> None:
        self._seconds.setdefault(step, []).append((seconds, cpu_seconds))

    def show(self) -> None:
        for step, costs in self._seconds.items():
            seconds, cpu_seconds = (statistics.median(each) for each in zip(*costs, strict=True))
            click.echo(f"{step}: {seconds:.2f} s, CPU {cpu_seconds:.2f} s")


@click.command()
@click.option("--queues", type=click.IntRange(1), default=20_000, show_default=True)
@click.option(
    "--messages", type=click.IntRange(0), default=3, show_default=True, help="In each queue."
)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--body-bytes",
    type=click.IntRange(BODY_BYTES_MIN, BODY_BYTES_MAX),
    default=128,
    show_default=True,
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the server keeps its data: a disk.  [default: the current directory]",
)
@click.option("--cold", is_flag=True, help="Empty the page cache before each start (as root).")
def main(
    queues: int, messages: int, runs: int, body_bytes: int, data_dir: Path | None, *, cold: bool
) -> None:
    """Measure starts and stops with many durable queues; medians are shown."""
    costs = _Costs()
    empty_cache = _empty_page_cache if cold else None
    if cold:
        _empty_page_cache()
    with tempfile.TemporaryDirectory(prefix="many-queues-", dir=data_dir or Path.cwd()) as name:
        directory = Path(name)
        with start_our_server("ours", directory) as server:
            _fill(server, queues, messages, body_bytes)
            _kill(server)
        with _started(directory, _AFTER_FILL, costs, empty_cache) as server:
            _check(server, queues, messages)
        for _ in range(runs):
            with _started(directory, _AFTER_STOP, costs, empty_cache) as server:
                _check(server, queues, messages)
                _kill_under_load(server, queues, body_bytes)
            with _started(directory, _AFTER_KILL, costs, empty_cache) as server:
                _check(server, queues, messages)
                ends = _end_files(directory)
                _kill_under_load(server, queues, body_bytes, queues + _UNCONFIRMED_MAX // 20)
                _put_back(ends)
            with _stopped_cleanly(directory, costs, empty_cache) as server:
                _check(server, queues, messages)
    costs.show()


@contextmanager
def _started(
    directory: Path, step: str, costs: _Costs, empty_cache: Callable[[], None] | None
) -> Iterator[RunningBroker]:
    if empty_cache is not None:
        empty_cache()
    begin = time.monotonic()
    with start_our_server("ours", directory) as server:
        costs.add(step, time.monotonic() - begin, _cpu_seconds(server))
        begin = time.monotonic()
        _confirm_one(server)
        costs.add(_FIRST_CONFIRM, time.monotonic() - begin, 0.0)
        yield server


@contextmanager
def _stopped_cleanly(
    directory: Path, costs: _Costs, empty_cache: Callable[[], None] | None
) -> Iterator[RunningBroker]:
    ended_before = _ended_cpu_seconds()
    with _started(directory, _AFTER_POWER_CUT, costs, empty_cache) as server:
        yield server
        used = _cpu_seconds(server)
        begin = time.monotonic()
    costs.add(_STOP, time.monotonic() - begin, _ended_cpu_seconds() - ended_before - used)


def _empty_page_cache() -> None:
    """Let every file be read from the disk again."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError as error:
        raise click.ClickException(f"cannot empty the page cache: {error}") from error


def _cpu_seconds(server: RunningBroker) -> float:
    """CPU seconds that a running server has used, user and system."""
    assert server.pid is not None, "a server of ours has a process"
    # The clock of a process's CPU time, as clock_getcpuclockid(3) makes it from the process id.
    return time.clock_gettime((~server.pid << 3) | 2)


def _ended_cpu_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _fill(server: RunningBroker, queues: int, messages: int, body_bytes: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        connection.ask_pipelined(
            [declare_queue(_CHANNEL, f"q{number}", durable=True) for number in range(queues)]
        )
        connection.select_confirms()
        window = ConfirmWindow()
        sent = 0
        for begun in range(0, messages, _BLOCK_MESSAGES):
            count = min(messages - begun, _BLOCK_MESSAGES)
            for number in range(queues):
                connection.send(_publishes(number, count, body_bytes))
                sent += count
                while sent - window.settled > _UNCONFIRMED_MAX:
                    window.feed(connection.receive())
        while window.settled < sent:
            window.feed(connection.receive())


def _kill_under_load(
    server: RunningBroker, queues: int, body_bytes: int, least_messages: int = 0
) -> None:
    """Publish to all queues in turn, and kill the server after some messages at least."""
    assert server.pid is not None, "a server of ours has a process"
    with Connection(server.url, _CHANNEL) as connection:
        connection.select_confirms()
        window = ConfirmWindow()
        end = time.monotonic() + _LOAD_SECONDS
        for sent, number in enumerate(itertools.cycle(range(queues))):
            if time.monotonic() >= end and sent >= least_messages:
                break
            connection.send(_publishes(number, 1, body_bytes))
            while sent - window.settled > _UNCONFIRMED_MAX // 20:
                window.feed(connection.receive())
        _kill(server)


def _end_files(directory: Path) -> dict[Path, bytes]:
    """Return the contents of the `end` files, which are not synced."""
    return {path: path.read_bytes() for path in directory.rglob("end") if path.is_file()}


def _put_back(ends: dict[Path, bytes]) -> None:
    """Let the `end` files be those of before: what was written since follows the ends they name."""
    for path, content in ends.items():
        path.write_bytes(content)


def _kill(server: RunningBroker) -> None:
    assert server.pid is not None, "a server of ours has a process"
    os.kill(server.pid, signal.SIGKILL)


def _confirm_one(server: RunningBroker) -> None:
    """Publish a message to a queue and wait for its confirm."""
    with Connection(server.url, _CHANNEL) as connection:
        connection.select_confirms()
        window = ConfirmWindow()
        connection.send(_publishes(0, 1, BODY_BYTES_MIN))
        while not window.settled:
            window.feed(connection.receive())


def _publishes(number: int, count: int, body_bytes: int) -> bytes:
    block = PublishBlock(
        _CHANNEL, f"q{number}", body_bytes=body_bytes, persistent=True, block_messages=count
    )
    return block.encode(0, 0)


def _check(server: RunningBroker, queues: int, messages: int) -> None:
    counted = range(0, queues, -(-queues // _COUNTED_QUEUES))
    with Connection(server.url, _CHANNEL) as connection:
        # There may be more: those of the load.
        lost = sum(max(messages - connection.count_ready(f"q{number}"), 0) for number in counted)
    if lost:
        click.echo(f"LOST {lost}")
        sys.exit(1)


if __name__ == "__main__":
    main()
