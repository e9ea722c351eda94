"""Memory and start of an idle server with many queues and a deep one.

    python -m bench.footprint [--queues 5000] [--backlog 5000000]

Declares durable queues, publishes one confirmed message to each, and fills one more queue with many
messages. Then it stops the server cleanly, and again with SIGKILL, and times each start until the
server listens. The figures count only if all messages are there after each start.
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

from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.options import data_dir_option
from bench.our_server import start_our_server
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock
from bench.running_broker import RunningBroker

_CHANNEL: Final = 1
_BODY_BYTES: Final = 128
_BACKLOG_QUEUE: Final = "backlog"
_BLOCK_MESSAGES: Final = 400
_MIB: Final = 1 << 20


@click.command(context_settings={"show_default": True})
@click.option("--queues", default=5000, help="Queues with one message each.")
@click.option("--backlog", default=5_000_000, help="Messages of one more queue.")
@data_dir_option("the server's data")
def main(queues: int, backlog: int, data_dir: Path) -> None:
    """Measure the memory and the start of a server with many queues and a deep one."""
    with tempfile.TemporaryDirectory(prefix="footprint-", dir=data_dir) as name:
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
        click.echo(f"start, {what}: listening after {time.monotonic() - begin:.2f} s")
        yield server


def _show_memory(server: RunningBroker, what: str) -> None:
    bytes_now = ServerProbe(server.pid).rss_anon_bytes()
    assert bytes_now is not None, "a server of ours is on this machine"
    click.echo(f"RssAnon, {what}: {bytes_now / _MIB:.0f} MiB")


def _fill_queues(server: RunningBroker, queues: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        connection.select_confirms()
        window = ConfirmWindow()
        begin = time.monotonic()
        for number in range(queues):
            connection.declare_queue(f"q{number}", durable=True)
        declared = time.monotonic()
        for number in range(queues):
            connection.send(_block(f"q{number}", 1).encode(0, 0))
        while window.settled < queues:
            window.feed(connection.receive())
        confirmed = time.monotonic()
        click.echo(
            f"{queues} queues: declared one by one in {declared - begin:.1f} s, "
            f"first messages confirmed in {confirmed - declared:.1f} s"
        )


def _fill_backlog(server: RunningBroker, backlog: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        connection.declare_queue(_BACKLOG_QUEUE, durable=True)
        whole, rest = divmod(backlog, _BLOCK_MESSAGES)
        block = _block(_BACKLOG_QUEUE, _BLOCK_MESSAGES)
        for number in range(whole):
            connection.send(block.encode(number, 0))
        if rest:
            connection.send(_block(_BACKLOG_QUEUE, rest).encode(whole, 0))
        connection.count_ready(_BACKLOG_QUEUE)  # answered after all publishes are handled


def _block(queue: str, messages: int) -> PublishBlock:
    return PublishBlock(
        _CHANNEL, queue, body_bytes=_BODY_BYTES, persistent=True, block_messages=messages
    )


def _check(server: RunningBroker, queues: int, backlog: int) -> None:
    with Connection(server.url, _CHANNEL) as connection:
        found = connection.count_ready(_BACKLOG_QUEUE)
        singles = sum(connection.count_ready(f"q{number}") for number in range(queues))
    click.echo(f"LOST {backlog - found + queues - singles}")
    if (found, singles) != (backlog, queues):
        sys.exit(1)


if __name__ == "__main__":
    main()
