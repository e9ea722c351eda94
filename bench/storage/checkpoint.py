"""How long a round of checkpoints keeps the event loop from everything else, and takes itself."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import click
import uvloop

from amqp_server.broker.queue import Queue
from amqp_server.config import ServerConfig
from amqp_server.server import Server
from amqp_server.server_process import SWITCH_INTERVAL_SECONDS
from amqp_server.start_and_stop import start
from appendlog import FileSystem
from appendlog.layout.message import PERSISTENT, encode_message
from offsets import CheckpointStore, GroupOffsets, GroupSnapshot

HOLD_SECONDS_MAX: Final = 0.010
GROUPS_SECONDS_MAX: Final = 1.0
_MESSAGES: Final = 8
_GROUPS_PER_QUEUE: Final = 1000


@click.command()
@click.option("--queues", default=10_000, help="Dirty queues in the round.")
@click.option("--acks", default=10_000_000, help="Acks out of order in one more queue.")
@click.option("--groups", default=50_000, help="Groups with acks out of order in one round.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the data directory is made; None: with other temporary files.",
)
def benchmark(queues: int, acks: int, groups: int, data_dir: Path | None) -> None:
    """The longest hold of the event loop in a round of many queues; and a round of groups."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        uvloop.run(_measure(Path(name), queues, acks))
        _measure_groups(Path(name, "groups"), groups)


async def _measure(directory: Path, count: int, acks: int) -> None:
    running = await start(ServerConfig(port=0, storage_path=directory))
    server = running.server
    # Rounds of its own would come between.
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
        # No log has to hold what only its bitmap is measured of.
        large.settlement.settle(0, _MESSAGES)
        for offset in range(_MESSAGES + 1, _MESSAGES + 2 * acks, 2):
            large.settlement.settle(offset, offset + 1)
        large.store.recovery_point = _MESSAGES + 2 * acks
        large.is_checkpoint_due = True
        server.broker.storage.queues_to_checkpoint.add(large)
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
    # Its definition is not saved: nobody restarts this server.
    queue.store.awaits_definition = False
    message = encode_message(True, b"", name.encode(), b"\x00\x00", b"body")
    queue.publish([message] * _MESSAGES, PERSISTENT)
    return queue


def _settle_out_of_order(queue: Queue) -> None:
    for offset in range(1, _MESSAGES, 2):
        for taken in queue.ready.take_range(offset, offset + 1):
            queue.settle(taken.start, taken.end)


async def _show(what: str, server: Server) -> None:
    round_under_way = asyncio.ensure_future(server.checkpointer.write_round())
    longest = longest_own = 0.0
    before, before_own = time.perf_counter(), time.thread_time()
    while not round_under_way.done():
        await asyncio.sleep(0)
        now, now_own = time.perf_counter(), time.thread_time()
        longest, before = max(longest, now - before), now
        longest_own, before_own = max(longest_own, now_own - before_own), now_own
    report = round_under_way.result()
    verdict = "reached" if longest <= HOLD_SECONDS_MAX else "MISSED"
    click.echo(
        f"{what}: {report.written_bytes:,} bytes in {report.seconds:.3f} s, "
        f"loop held {longest * 1000:.1f} ms at most, "
        f"{longest_own * 1000:.1f} ms of it by its own work"
    )
    click.echo(f"  bar {HOLD_SECONDS_MAX * 1000:.0f} ms: {verdict}")


def _measure_groups(directory: Path, count: int) -> None:
    """Show how long a round of that many groups takes: taken, encoded, written and synced."""
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
    verdict = "reached" if seconds <= GROUPS_SECONDS_MAX else "MISSED"
    click.echo(f"  bar {GROUPS_SECONDS_MAX:.0f} s: {verdict}")
