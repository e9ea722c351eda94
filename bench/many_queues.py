"""How long a server with many durable queues takes to start, and to stop.

    python -m bench.many_queues [--queues 20000] [--messages 3] [--runs 3] [--cold]

Declares durable queues and confirms some messages in each. Then it starts the server again and
again: after a clean stop and after SIGKILL in turn. It prints the seconds and the CPU seconds (user
and system) until the server listens, and those of each clean stop. After each start it counts the
messages of some queues: if one is missing, the figures do not count.
"""

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
from bench.our_server import start_our_server
from bench.publish_block import PublishBlock
from bench.requests import declare_queue
from bench.running_broker import RunningBroker

_CHANNEL: Final = 1
_BODY_BYTES: Final = 128
_COUNTED_QUEUES: Final = 100
"""Queues whose messages are counted after each start."""

_AFTER_STOP: Final = "start after a clean stop"
_AFTER_KILL: Final = "start after SIGKILL"
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
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the server keeps its data: a disk.  [default: the current directory]",
)
@click.option("--cold", is_flag=True, help="Empty the page cache before each start (as root).")
def main(queues: int, messages: int, runs: int, data_dir: Path | None, *, cold: bool) -> None:
    """Measure starts and stops with many durable queues; medians are shown."""
    costs = _Costs()
    empty_cache = _empty_page_cache if cold else None
    if cold:
        _empty_page_cache()
    with tempfile.TemporaryDirectory(prefix="many-queues-", dir=data_dir or Path.cwd()) as name:
        directory = Path(name)
        with start_our_server("ours", directory) as server:
            _fill(server, queues, messages)
        for _ in range(runs):
            with _started(directory, _AFTER_STOP, costs, empty_cache) as server:
                _check(server, queues, messages)
                assert server.pid is not None, "a server of ours has a process"
                os.kill(server.pid, signal.SIGKILL)
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
        yield server


@contextmanager
def _stopped_cleanly(
    directory: Path, costs: _Costs, empty_cache: Callable[[], None] | None
) -> Iterator[RunningBroker]:
    ended_before = _ended_cpu_seconds()
    with _started(directory, _AFTER_KILL, costs, empty_cache) as server:
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


def _fill(server: RunningBroker, queues: int, messages: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        connection.ask_pipelined(
            [declare_queue(_CHANNEL, f"q{number}", durable=True) for number in range(queues)]
        )
        if not messages:
            return
        connection.select_confirms()
        window = ConfirmWindow()
        for number in range(queues):
            block = PublishBlock(
                _CHANNEL,
                f"q{number}",
                body_bytes=_BODY_BYTES,
                persistent=True,
                block_messages=messages,
            )
            connection.send(block.encode(0, 0))
        while window.settled < queues * messages:
            window.feed(connection.receive())


def _check(server: RunningBroker, queues: int, messages: int) -> None:
    counted = range(0, queues, -(-queues // _COUNTED_QUEUES))
    with Connection(server.url, _CHANNEL) as connection:
        lost = sum(messages - connection.count_ready(f"q{number}") for number in counted)
    if lost:
        click.echo(f"LOST {lost}")
        sys.exit(1)


if __name__ == "__main__":
    main()
