"""File syncs that a broker makes for persistent publishes, and whether its confirms wait for them.

    python -m bench.syncs [--brokers ours,rabbitmq] [--delay 50]

Publishes persistent messages with confirms to a durable queue, with a limit of unanswered publishes
(the window). Counts the server's system calls that wait for the disk: `fsync`, `fdatasync`,
`sync_file_range`, and synced `pwritev2` (RWF_DSYNC). With `--delay`, each of them takes that many
milliseconds longer. A broker whose confirms wait for a sync then confirms at most one window of
messages in each delay; the table shows this limit.

Needs strace and the permission to trace the server. strace slows the server down: rates are
meaningful only with a delay.
"""

import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.amqp_frames import acknowledge, take_frames
from bench.broker_url import BrokerUrl
from bench.brokers import OURS, RABBITMQ, STARTERS
from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.delivery_layout import DELIVER
from bench.errors import BenchError
from bench.options import Names, data_dir_option
from bench.publish_block import PublishBlock
from bench.workloads import QUEUE

_CHANNEL: Final = 1
_PREFETCH: Final = 1000
_CALLS: Final = "fsync,fdatasync,sync_file_range,pwritev2"
_SYNC: Final = re.compile(
    r"\b(?:(?:fsync|fdatasync|sync_file_range)\(|pwritev2\(.*RWF_D?SYNC)", re.MULTILINE
)
_ATTACH_SECONDS_MAX: Final = 30
_REST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """What to publish.

    Attributes:
        body_bytes: Size of each body.
        window: Most publishes without an answer; 1 for one at a time.
        count: Number of publishes.
        is_consumed: Whether a consumer with acks takes the messages at the same time.
    """

    body_bytes: int
    window: int
    count: int
    is_consumed: bool = False


LOADS: Final = (
    Load(128, 1, 100),
    Load(128, 100, 10_000),
    Load(128, 1000, 50_000),
    Load(128, 1000, 50_000, is_consumed=True),
    Load(65_536, 1, 100),
    Load(65_536, 100, 2_000),
    Load(65_536, 100, 2_000, is_consumed=True),
)


def publish(url: BrokerUrl, load: Load) -> float:
    """Publish a load to a new durable queue, delete the queue, and return the seconds it took.

    Args:
        url: The broker.
        load: What to publish.

    Raises:
        BenchError: The broker refused a publish, or did not answer.
    """
    block = PublishBlock(
        _CHANNEL, QUEUE, body_bytes=load.body_bytes, persistent=True, block_messages=1
    )
    with ExitStack() as stack:
        connection = stack.enter_context(Connection(url, _CHANNEL))
        connection.delete_queue(QUEUE)
        connection.declare_queue(QUEUE, durable=True)
        connection.select_confirms()
        consumer = None
        if load.is_consumed:
            reading = stack.enter_context(Connection(url, _CHANNEL))
            reading.start_consumer(QUEUE, _PREFETCH)
            consumer = threading.Thread(
                target=_consume, args=(reading, load.count), name="consumer", daemon=True
            )
            consumer.start()
        answered = ConfirmWindow()
        begin = time.perf_counter()
        sent = 0
        while answered.settled < load.count:
            room = min(load.count, answered.settled + load.window) - sent
            if room > 0:
                octets = b"".join(block.encode(number, 0) for number in range(sent, sent + room))
                connection.send(octets)
                sent += room
            answered.feed(connection.receive())
        seconds = time.perf_counter() - begin
        if consumer is not None:
            consumer.join()
        connection.delete_queue(QUEUE)
    if answered.nacked:
        raise BenchError(f"{answered.nacked} publishes were refused")
    return seconds


def _consume(connection: Connection, count: int) -> None:
    unread = bytearray(connection.take_unread())
    taken = 0
    while True:
        tag = 0
        for frame in take_frames(unread):
            if frame.method_id == DELIVER:
                # Class, method and the consumer tag stand before the delivery tag.
                start = 5 + frame.payload[4]
                tag = int.from_bytes(frame.payload[start : start + 8])
                taken += 1
        if tag:
            connection.send(acknowledge(connection.channel, tag))
        if taken >= count:
            return
        unread += connection.receive()


def count_syncs(trace: str) -> int:
    """Return how many system calls in the output of strace wait for the disk, each once."""
    return len(_SYNC.findall(trace))


@contextmanager
def traced(pid: int, trace: Path, delay_milliseconds: int = 0) -> Iterator[None]:
    """Trace the syncs of a process and its threads with strace, until the end of the `with`.

    Args:
        pid: Id of the process.
        trace: File for the output of strace.
        delay_milliseconds: Time by which strace delays each sync.

    Raises:
        BenchError: strace is not installed, or may not trace the process.
    """
    program = shutil.which("strace")
    if program is None:
        raise BenchError("strace is not installed (Debian: strace)")
    command = [program, "-f", "-p", str(pid), "-o", str(trace), "-e", f"trace={_CALLS}"]
    if delay_milliseconds:
        command += ["-e", f"inject={_CALLS}:delay_enter={delay_milliseconds * 1000}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # strace prints this line when it is attached to all threads; `-f` adds later threads.
        line = process.stderr.readline()
        if "attached" not in line:
            process.wait(_ATTACH_SECONDS_MAX)
            raise BenchError(line.strip())
        drain = threading.Thread(target=process.stderr.read, name="strace", daemon=True)
        drain.start()
        try:
            yield
        finally:
            process.terminate()


@click.command(context_settings={"show_default": True})
@click.option(
    "--brokers",
    type=Names(list(STARTERS)),
    default=f"{OURS},{RABBITMQ}",
    help="Brokers to start and measure in turn.",
)
@click.option(
    "--delay",
    type=click.IntRange(0, 1000),
    default=0,
    help="Milliseconds by which each sync is delayed.",
)
@data_dir_option("the brokers' data")
def main(brokers: list[str], delay: int, data_dir: Path) -> None:
    """Count the syncs of persistent publishes with confirms."""
    bound = "at most" if delay else ""
    click.echo(
        f"{'broker':<10}{'body':>8}{'window':>8}{'consumed':>10}{'publishes':>11}{'syncs':>8}"
        f"{'a sync':>9}{'msg/s':>9}  {bound}".rstrip()
    )
    for name in brokers:
        with tempfile.TemporaryDirectory(
            prefix="syncs-", dir=data_dir, ignore_cleanup_errors=True
        ) as directory:
            _measure(name, Path(directory), delay)


def _measure(name: str, directory: Path, delay: int) -> None:
    data, trace = directory / "data", directory / "trace"
    data.mkdir()
    try:
        with STARTERS[name](data, None) as running:
            assert running.pid is not None
            # The first publishes pay for what a broker does once: they are not counted.
            publish(running.url, Load(128, 1, 10))
            for load in LOADS:
                time.sleep(_REST_SECONDS)
                with traced(running.pid, trace, delay):
                    seconds = publish(running.url, load)
                _show(name, load, count_syncs(trace.read_text()), seconds, delay)
    except (BenchError, OSError) as error:
        raise click.ClickException(f"{name}: {error}") from error


def _show(name: str, load: Load, syncs: int, seconds: float, delay: int) -> None:
    most = f"{load.window * 1000 / delay:>9,.0f}" if delay else ""
    click.echo(
        f"{name:<10}{load.body_bytes:>8}{load.window:>8}"
        f"{'yes' if load.is_consumed else 'no':>10}{load.count:>11,}{syncs:>8,}"
        f"{load.count / max(1, syncs):>9.1f}{load.count / seconds:>9,.0f}  {most}".rstrip()
    )


if __name__ == "__main__":
    main()
