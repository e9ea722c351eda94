"""What a server costs at rest: memory and start with many queues and a deep one.

    python -m bench.footprint [--queues 5000] [--backlog 5000000]

Declares durable queues, confirms one message in each, and queues a backlog in one more. Then
stops the server cleanly, and again with SIGKILL, and times each start until it listens. The
counts after each start must be what was published, or the figures do not count.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from bench.amqp_frames import METHOD, parse_frames
from bench.connection import Connection
from bench.our_server import start_our_server
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock
from bench.running_broker import RunningBroker

_CHANNEL: Final = 1
_BODY_BYTES: Final = 128
_BACKLOG_QUEUE: Final = "backlog"
_MIB: Final = 1 << 20


@click.command()
@click.option("--queues", default=5000, show_default=True, help="Queues of one message each.")
@click.option("--backlog", default=5_000_000, show_default=True, help="Messages of one more queue.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the server keeps its data: a disk.  [default: the current directory]",
)
def main(queues: int, backlog: int, data_dir: Path | None) -> None:
    """Measure memory and start-up with many queues and a deep one."""
    with tempfile.TemporaryDirectory(prefix="footprint-", dir=data_dir or Path.cwd()) as name:
        directory = Path(name)
        with _started(directory, "empty") as server:
            _show_memory(server, "nothing queued")
            _fill_queues(server, queues)
            _show_memory(server, f"{queues} queues, a message each")
            _fill_backlog(server, backlog)
            _show_memory(server, f"and {backlog} messages of {_BODY_BYTES} B in one more")
        with _started(directory, "after a clean stop") as server:
            _show_memory(server, "the same, started again")
            _check(server, queues, backlog)
            assert server.pid is not None, "a server of ours has a process"
            os.kill(server.pid, signal.SIGKILL)
        with _started(directory, "after SIGKILL") as server:
            _show_memory(server, "the same, started again")
            _check(server, queues, backlog)


@contextmanager
def _started(directory: Path, what: str) -> Iterator[RunningBroker]:
    begin = time.monotonic()
    with start_our_server("ours", directory) as server:
        print(f"start, {what}: listening after {time.monotonic() - begin:.2f} s")
        yield server


def _show_memory(server: RunningBroker, what: str) -> None:
    bytes_now = ServerProbe(server.pid).rss_anon_bytes()
    assert bytes_now is not None, "a server of ours is on this machine"
    print(f"RssAnon, {what}: {bytes_now / _MIB:.0f} MiB")


def _fill_queues(server: RunningBroker, queues: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        connection.select_confirms()
        begin = time.monotonic()
        for number in range(queues):
            connection.declare_queue(f"q{number}", durable=True)
        declared = time.monotonic()
        for number in range(queues):
            block = PublishBlock(
                _CHANNEL, f"q{number}", body_bytes=_BODY_BYTES, persistent=True, block_messages=1
            )
            connection.send(block.encode(0, 0))
        _await_confirms(connection, queues)
        confirmed = time.monotonic()
        print(
            f"{queues} queues: declared one by one in {declared - begin:.1f} s, "
            f"first messages confirmed in {confirmed - declared:.1f} s"
        )


def _await_confirms(connection: Connection, count: int) -> None:
    answered = 0
    octets = b""
    while answered < count:
        octets += connection.receive()
        used = 0
        for frame in parse_frames(octets):
            used += len(frame.payload) + 8
            if frame.kind == METHOD and frame.method_id == (60, 80):
                answered = int.from_bytes(frame.payload[4:12], "big")
        octets = octets[used:]


def _fill_backlog(server: RunningBroker, backlog: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        connection.declare_queue(_BACKLOG_QUEUE, durable=True)
        block = PublishBlock(
            _CHANNEL, _BACKLOG_QUEUE, body_bytes=_BODY_BYTES, persistent=True, block_messages=400
        )
        whole, rest = divmod(backlog, 400)
        for number in range(whole):
            connection.send(block.encode(number, 0))
        if rest:
            tail = PublishBlock(
                _CHANNEL,
                _BACKLOG_QUEUE,
                body_bytes=_BODY_BYTES,
                persistent=True,
                block_messages=rest,
            )
            connection.send(tail.encode(whole, 0))
        connection.count_ready(_BACKLOG_QUEUE)


def _check(server: RunningBroker, queues: int, backlog: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        found = connection.count_ready(_BACKLOG_QUEUE)
        singles = sum(connection.count_ready(f"q{number}") for number in range(queues))
    print(f"LOST {backlog - found + queues - singles}")
    if (found, singles) != (backlog, queues):
        sys.exit(1)


if __name__ == "__main__":
    main()
