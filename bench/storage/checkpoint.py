"""Longest time for which a round of checkpoints blocks the event loop, and the round's duration."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import click
import uvloop

from amqp_server.base.config import ServerConfig
from amqp_server.broker.queue import Queue
from amqp_server.server import Server
from amqp_server.server_process import SWITCH_INTERVAL_SECONDS
from amqp_server.start_and_stop import start
from appendlog import FileSystem
from appendlog.layout.message import PERSISTENT, encode_message
from bench.options import data_dir_option
from bench.storage.comparison import show_bar
from offsets import CheckpointStore, GroupOffsets, GroupSnapshot

HOLD_SECONDS_MAX: Final = 0.010
GROUPS_SECONDS_MAX: Final = 1.0
_MESSAGES: Final = 8
_GROUPS_PER_QUEUE: Final = 1000


@click.command()
@click.option("--queues", default=10_000, help="Dirty queues in the round.")
@click.option("--acks", default=10_000_000, help="Acks out of order in one more queue.")
@click.option("--groups", default=50_000, help="Groups with acks out of order in one round.")
@data_dir_option("the server's data", tempfile.gettempdir)
def benchmark(queues: int, acks: int, groups: int, data_dir: Path) -> None:
    """Measure how long a round of many queues blocks the event loop, and a round of groups."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        uvloop.run(_measure(Path(name), queues, acks))
        _measure_groups(Path(name, "groups"), groups)


async def _measure(directory: Path, count: int, acks: int) -> None:
    running = await start(ServerConfig(port=0, storage_path=directory))
    server = running.server
    # The server's own rounds would disturb the measurement.
    server.checkpointer._interval_seconds = 0
    try:
        queues = [_queue(server, f"q{number}") for number in range(count)]
        for queue in queues:
            await queue.store.make_durable()
        await server.checkpointer.write_round()
        for queue in queues:
            _settle_out_of_order(queue)
        await _show(f"{count:,} dirty queues", server)
        large = queues[0]
        # Only the bitmap of the acks is measured: the log need not have these messages.
        large.settlement.settle(0, _MESSAGES)
        for offset in range(_MESSAGES + 1, _MESSAGES + 2 * acks, 2):
            large.settlement.settle(offset, offset + 1)
        large.store.recovery_point = _MESSAGES + 2 * acks
        large.is_checkpoint_due = True
        server.broker.queues_to_checkpoint.add(large)
        await _show(f"one queue with {acks:,} acks out of order", server)
    finally:
        await running.stop()


def _queue(server: Server, name: str) -> Queue:
    queue = server.broker.create_queue(
        server.broker.vhosts["/"],
        name,
        durable=True,
        exclusive_owner=None,
        auto_delete=False,
        arguments={},
    )
    # Its definition is not saved, since this server is never restarted.
    queue.store.awaits_definition = False
    message = encode_message(True, b"", name.encode(), b"\x00\x00", b"body")
    queue.publish([message] * _MESSAGES, PERSISTENT)
    return queue


def _settle_out_of_order(queue: Queue) -> None:
    for offset in range(1, _MESSAGES, 2):
        for taken in queue.ready.take_range(offset, offset + 1):
            queue.settle(taken.start, taken.end)


async def _show(what: str, server: Server) -> None:
    writing = asyncio.ensure_future(server.checkpointer.write_round())
    longest = longest_own = 0.0
    before, before_own = time.perf_counter(), time.thread_time()
    while not writing.done():
        await asyncio.sleep(0)
        now, now_own = time.perf_counter(), time.thread_time()
        longest, before = max(longest, now - before), now
        longest_own, before_own = max(longest_own, now_own - before_own), now_own
    report = writing.result()
    click.echo(
        f"{what}: {report.written_bytes:,} bytes in {report.seconds:.3f} s, "
        f"loop blocked for {longest * 1000:.1f} ms at most, "
        f"{longest_own * 1000:.1f} ms of it by its own work"
    )
    show_bar(f"{HOLD_SECONDS_MAX * 1000:.0f} ms", is_reached=longest <= HOLD_SECONDS_MAX)


def _measure_groups(directory: Path, count: int) -> None:
    """Print how long a round of groups takes: snapshots, encoding, writing and syncing."""
    directory.mkdir()
    store, _, _ = CheckpointStore.open(directory / "offsets", FileSystem())
    store.write_round(())
    incarnations = [uuid4() for _ in range(0, count, _GROUPS_PER_QUEUE)]
    groups = [GroupOffsets(f"group-{number:06}") for number in range(count)]
    for group in groups:
        group.start_at(1000, 0)
        group.settle(1000, 1010, 0)
        group.settle(1020, 1025, 0)
    started = time.perf_counter()
    states = [
        GroupSnapshot.of(group, incarnations[number // _GROUPS_PER_QUEUE], 2000)
        for number, group in enumerate(groups)
    ]
    taken_seconds = time.perf_counter() - started
    written = store.write_round((), groups=states)
    seconds = time.perf_counter() - started
    store.close()
    click.echo(
        f"groups: {count:,} in one round: {written.written_bytes:,} bytes in {seconds:.3f} s, "
        f"{taken_seconds:.3f} s of it on the loop, in slices"
    )
    show_bar(f"{GROUPS_SECONDS_MAX:.0f} s", is_reached=seconds <= GROUPS_SECONDS_MAX)
