"""How many syncs of files a broker spends on persistent publishes, and whether confirms wait.

    python -m bench.syncs [--brokers ours,rabbitmq] [--delay 50]

Publishes persistent messages with confirms into a durable queue, at most so many of them without
an answer, and counts the server's system calls that wait for the disk: `fsync`, `fdatasync`,
`sync_file_range`, and `pwritev2` that is synced (RWF_DSYNC). With `--delay` each of them takes that
many milliseconds longer. A broker whose confirms wait for a sync then confirms at most a window of
messages for each delay, which the table says.

Needs strace, which may trace the server, and makes it slower: rates mean nothing without a delay.
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

from bench.amqp_frames import FRAME_OVERHEAD_BYTES, acknowledge, parse_frames
from bench.broker_url import BrokerUrl
from bench.brokers import OURS, RABBITMQ, STARTERS
from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.errors import BenchError
from bench.publish_block import PublishBlock

_CHANNEL: Final = 1
_QUEUE: Final = "bench"
_PREFETCH: Final = 1000
_DELIVER: Final = (60, 60)
_CALLS: Final = "fsync,fdatasync,sync_file_range,pwritev2"
_SYNC: Final = re.compile(
    r"\b(?:(?:fsync|fdatasync|sync_file_range)\(|pwritev2\(.*RWF_D?SYNC)", re.MULTILINE
)
_ATTACH_SECONDS_MAX: Final = 30
_REST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is published.

    Attributes:
        body_bytes: Size of each body.
        window: Most publishes without an answer; 1 for one at a time.
        count: Publishes in all.
        is_consumed: Whether a consumer with acks takes them meanwhile.
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
    """Publish a load into a new durable queue, delete the queue, and return the seconds it took.

    Args:
        url: The broker.
        load: What to publish.

    Raises:
        BenchError: The broker refused a publish, or does not answer.
    """
    block = PublishBlock(
        _CHANNEL, _QUEUE, body_bytes=load.body_bytes, persistent=True, block_messages=1
    )
    with ExitStack() as stack:
        connection = stack.enter_context(Connection(url, _CHANNEL))
        connection.delete_queue(_QUEUE)
        connection.declare_queue(_QUEUE, durable=True)
        connection.select_confirms()
        consumer = None
        if load.is_consumed:
            reading = stack.enter_context(Connection(url, _CHANNEL))
            reading.start_consumer(_QUEUE, _PREFETCH)
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
        connection.delete_queue(_QUEUE)
    if answered.nacked:
        raise BenchError(f"{answered.nacked} publishes were refused")
    return seconds


def _consume(connection: Connection, count: int) -> None:
    octets = connection.take_unread()
    taken = 0
    while True:
        used, tag = 0, 0
        for frame in parse_frames(octets):
            used += FRAME_OVERHEAD_BYTES + len(frame.payload)
            if frame.method_id == _DELIVER:
                # Class, method and the consumer's tag stand before the delivery's.
                start = 5 + frame.payload[4]
                tag = int.from_bytes(frame.payload[start : start + 8])
                taken += 1
        octets = octets[used:]
        if tag:
            connection.send(acknowledge(connection.channel, tag))
        if taken >= count:
            return
        octets += connection.receive()


def count_syncs(trace: str) -> int:
    """Count the system calls in what strace wrote that wait for the disk, each once."""
    return len(_SYNC.findall(trace))


@contextmanager
def traced(pid: int, trace: Path, delay_milliseconds: int = 0) -> Iterator[None]:
    """Let strace write down the syncs of a process and its threads.

    Args:
        pid: The process.
        trace: File to write.
        delay_milliseconds: How much longer each of these calls is to take.

    Raises:
        BenchError: strace is not installed, or may not trace.
    """
    program = shutil.which("strace")
    if program is None:
        raise BenchError("strace is not installed (Debian: strace)")
    command = [program, "-f", "-p", str(pid), "-o", str(trace), "-e", f"trace={_CALLS}"]
    if delay_milliseconds:
        command += ["-e", f"inject={_CALLS}:delay_enter={delay_milliseconds * 1000}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # It says this when all threads are attached; later ones are too, by `-f`.
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


@click.command()
@click.option(
    "--brokers", default=f"{OURS},{RABBITMQ}", show_default=True, help="Which to start in turn."
)
@click.option(
    "--delay",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Milliseconds that each sync is to take longer.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the brokers keep their data: a disk.  [default: the current directory]",
)
def main(brokers: str, delay: int, data_dir: Path | None) -> None:
    """Count the syncs of persistent publishes with confirms."""
    names = brokers.split(",")
    unknown = [name for name in names if name not in STARTERS]
    if unknown:
        raise click.UsageError(f"--brokers: '{unknown[0]}' is none of {', '.join(STARTERS)}")
    bound = "at most" if delay else ""
    click.echo(
        f"{'broker':<10}{'body':>8}{'window':>8}{'consumed':>10}{'publishes':>11}{'syncs':>8}"
        f"{'a sync':>9}{'msg/s':>9}  {bound}".rstrip()
    )
    for name in names:
        with tempfile.TemporaryDirectory(
            prefix="syncs-", dir=data_dir or Path.cwd(), ignore_cleanup_errors=True
        ) as directory:
            _measure(name, Path(directory), delay)


def _measure(name: str, directory: Path, delay: int) -> None:
    data, trace = directory / "data", directory / "trace"
    data.mkdir()
    try:
        with STARTERS[name](data, None) as running:
            assert running.pid is not None
            # What a broker does once, such as to make a queue's directory, is not counted.
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
