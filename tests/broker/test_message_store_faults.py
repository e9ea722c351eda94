"""What the store does when its queue is deleted, its disk slow or broken, its log damaged."""

import asyncio
import errno
import os
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from amqp_server.base.config import Durability
from appendlog.files.filesystem import FileSystem
from tests.broker.store_bench import RING_BYTES, RING_SLOTS, MakeBench, StoreBench
from tests.faults.faulty_filesystem import FaultyFileSystem

both_kinds = pytest.mark.parametrize("is_journaled", [True, False], ids=["durable", "transient"])


# A slow disk


@both_kinds
def test_what_finds_no_room_waits_and_is_claimed_in_order(
    tmp_path: Path, bench: MakeBench, is_journaled: bool
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=is_journaled, filesystem=filesystem)
    for _ in range(30):
        queue.publish(100)
        queue.store.run_journal(may_wait=False)

    assert queue.store.is_stalled
    assert queue.store.end_offset == 3_000
    assert queue.store.cursor < 3_000
    assert queue.ring.held_bytes <= RING_BYTES
    queue.assert_all_readable()
    moves = queue.moves

    filesystem.sync_gate.set()
    queue.until(lambda: queue.store.cursor == 3_000)

    assert queue.moves > moves
    assert not queue.store.is_stalled
    queue.settle_down()
    queue.assert_all_readable()


def test_a_batch_larger_than_the_ring_is_taken_piece_by_piece(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(5_000, 100)

    assert queue.store.is_stalled
    assert queue.ring.held_bytes <= RING_BYTES
    queue.settle_down()
    assert (queue.store.cursor, queue.store.confirmed_end) == (5_000, 5_000)
    queue.assert_all_readable()


def test_room_made_by_settling_is_announced(tmp_path: Path, bench: MakeBench) -> None:
    """Claimed in silence, the messages stayed invisible and their publisher unread."""
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=False, filesystem=filesystem)
    queue.publish(RING_SLOTS, 0)
    queue.publish(10, 0)
    assert queue.store.is_stalled
    moves = queue.moves

    queue.settle(0, 500)

    assert not queue.store.is_stalled
    assert queue.store.cursor == RING_SLOTS + 10
    assert queue.moves > moves
    filesystem.sync_gate.set()


@both_kinds
def test_what_waits_is_read_and_settled_as_all_else(
    tmp_path: Path, bench: MakeBench, is_journaled: bool
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=is_journaled, filesystem=filesystem)
    queue.publish(5 * RING_SLOTS, 0)
    cursor = queue.store.cursor
    assert cursor < queue.store.end_offset
    queue.assert_all_readable()

    queue.settle(cursor + 10, cursor + 20)
    queue.settle(0, cursor + 10)
    queue.run_turns()
    queue.assert_all_readable()
    queue.settle(cursor + 20, queue.store.end_offset)
    queue.run_turns()

    # Only a durable queue has to write what is settled.
    assert queue.store.is_stalled == is_journaled
    filesystem.sync_gate.set()
    queue.settle_down()
    assert (queue.store.cursor, len(queue.ring)) == (5 * RING_SLOTS, 0)
    if is_journaled:
        assert queue.logged() == queue.expected


def test_a_purge_holds_the_loop_for_one_ring_at_a_time(tmp_path: Path, bench: MakeBench) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=False, filesystem=filesystem)
    queue.publish(5 * RING_SLOTS, 0)
    seen = [queue.store.cursor]
    queue.settle(0, queue.store.end_offset)
    seen.append(queue.store.cursor)
    while queue.store.run_journal(may_wait=False):
        seen.append(queue.store.cursor)
    assert [after - before for before, after in pairwise(seen)] == [0, *[RING_SLOTS] * 4]
    assert (queue.store.is_stalled, len(queue.ring)) == (False, 0)
    filesystem.sync_gate.set()


def test_a_purge_empties_the_ring_also_when_few_messages_fill_it(
    tmp_path: Path, bench: MakeBench
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=False, filesystem=filesystem)
    queue.publish(150, 1000)
    assert queue.store.is_stalled
    queue.settle(0, 150)
    assert len(queue.ring) == 0
    queue.run_turns()
    assert (queue.store.is_stalled, len(queue.ring)) == (False, 0)
    filesystem.sync_gate.set()


# The end of a queue, and of a disk


def test_a_deleted_queue_answers_everybody_who_waited(tmp_path: Path, bench: MakeBench) -> None:
    """Publishes that never found room used to wait for ever."""
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=True, filesystem=filesystem)
    queue.publish(2_000)
    wanted = queue.store.end_offset
    assert queue.store.is_stalled

    queue.store.discard()

    assert queue.store.confirmed_end >= wanted
    assert not queue.store.is_stalled
    assert queue.pool.lent_pages == 0
    assert queue.store.run_journal(may_wait=False) is False
    filesystem.sync_gate.set()


def test_a_read_that_arrives_after_the_queue_was_deleted_is_nobodys_loss(
    bench: MakeBench,
) -> None:
    queue = bench(is_journaled=True)
    queue.publish(3_000)
    queue.settle_down()
    queue.log.delete()
    assert queue.store.read(0, 10) == []
    queue.store.discard()

    queue.take_report()

    assert queue.lost == []


def test_a_deleted_queue_holds_nothing_of_its_log(bench: MakeBench) -> None:
    """What it had read last kept its files mapped, and their room on the disk, until the stop."""
    queue = bench(is_journaled=True)
    queue.publish(3_000)
    queue.settle_down()
    assert queue.read(0, 10)
    held = queue.store.windows.budget
    assert len(held) == 1

    queue.store.discard()

    assert len(held) == held.held_bytes == 0


@both_kinds
@pytest.mark.parametrize("fail_at", range(9))
def test_a_disk_that_fails_makes_the_store_fail_and_keeps_what_is_in_memory(
    tmp_path: Path, bench: MakeBench, is_journaled: bool, fail_at: int
) -> None:
    filesystem = FaultyFileSystem(tmp_path, fail_at=fail_at)
    queue = bench(is_journaled=is_journaled, filesystem=filesystem)
    while not queue.store.is_failed:
        queue.publish(200)
        queue.settle_down()
        assert queue.store.end_offset < 20_000

    assert not queue.store.is_stalled
    assert queue.store.confirmed_end == queue.log.recovery_point
    assert queue.log.failed is not None
    assert not queue.store.is_flushing
    queue.assert_all_readable()
    # Nothing is tried again on a disk that has failed.
    operations = len(filesystem.operations)
    queue.store.request_sync()
    queue.store.release_memory()
    queue.settle_down()
    assert len(filesystem.operations) == operations
    assert not queue.store.is_flushing
    queue.assert_all_readable()


def test_a_failed_store_asks_the_flusher_for_nothing_more(tmp_path: Path, bench: MakeBench) -> None:
    """Each checkpoint used to ask for a sync again, and to log its failure again."""
    filesystem = FaultyFileSystem(tmp_path)
    queue = bench(is_journaled=True, filesystem=filesystem)
    queue.publish(10, persistent=False)
    queue.settle_down()
    filesystem.fail_at = 0
    queue.publish(10)
    queue.until(lambda: queue.store.is_failed)
    assert queue.store.recovery_point < queue.store.written_end

    queue.store.request_sync()

    assert not queue.store.is_flushing


class UnreadableFileSystem(FileSystem):
    """Every read fails with EIO while `is_broken`."""

    is_broken = False

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(descriptor, size, position)


def test_a_read_that_fails_loses_nothing(bench: MakeBench) -> None:
    """One EIO used to settle, and so to drop, everything that the log alone still had."""
    filesystem = UnreadableFileSystem()
    queue = bench(is_journaled=True, filesystem=filesystem)
    queue.publish(3_000)
    queue.settle_down()
    filesystem.is_broken = True
    assert queue.store.read(0, 10) == []
    moves = queue.moves

    queue.take_report()

    assert queue.lost == []
    assert queue.moves > moves
    filesystem.is_broken = False
    assert queue.store.read(0, 10) == []
    queue.take_report()
    assert len(queue.store.read(0, 10)) == 10


def test_records_that_the_log_has_lost_are_named_and_the_rest_is_read(bench: MakeBench) -> None:
    queue = bench(is_journaled=True, flush_bytes=1_000)
    queue.publish(3_000)
    queue.settle_down()
    segment = next(queue.directory.glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 4] ^= 1
    segment.write_bytes(content)

    offset = 0
    read: dict[int, bytes] = {}
    while offset < queue.store.cursor:
        part = queue.store.read(offset, queue.store.cursor)
        read.update(zip(range(offset, offset + len(part)), part, strict=True))
        offset += len(part)
        if not part:
            queue.take_report()
            if queue.lost and queue.lost[-1][0] == offset:
                offset = queue.lost[-1][1]

    ((start, end),) = queue.lost
    assert 0 < start < end < 3_000
    assert read == {
        number: message for number, message in queue.expected.items() if not start <= number < end
    }


# Waiting on the event loop


async def test_whoever_waits_for_a_read_hears_when_it_has_arrived(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(3_000)
    queue.settle_down()
    await queue.store.until_read()
    assert queue.store.read(0, 1) == []
    waiting = asyncio.create_task(queue.store.until_read())
    await asyncio.sleep(0)
    assert not waiting.done()

    queue.take_report()
    await waiting

    assert queue.store.read(0, 1) == [queue.expected[0]]


async def test_make_durable_returns_when_all_is_on_the_disk(bench: MakeBench) -> None:
    queue = bench(is_journaled=True, durability=Durability.NONE)
    queue.publish(3_000, persistent=False)
    waiting = asyncio.create_task(queue.store.make_durable())
    await asyncio.sleep(0)
    while not waiting.done():
        queue.take_report()
        await asyncio.sleep(0)

    assert queue.store.recovery_point == queue.log.recovery_point == 3_000


async def test_make_durable_gives_up_on_a_failed_disk(tmp_path: Path, bench: MakeBench) -> None:
    queue = bench(is_journaled=True, filesystem=FaultyFileSystem(tmp_path, fail_at=0))
    queue.publish(10)
    waiting = asyncio.create_task(queue.store.make_durable())
    await asyncio.sleep(0)

    queue.take_report()
    await waiting

    assert queue.store.is_failed


# A disk that was full


@pytest.mark.parametrize("in_transactions", [False, True], ids=["single", "in transactions"])
def test_a_log_that_has_kept_a_part_of_a_failed_write_goes_on_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_transactions: bool
) -> None:
    """A segment that the write had sealed stays: the log ends later than the store knows."""
    # All messages are in one write, however slow the machine is.
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 1_000.0)
    kept = 0
    for at in range(12):
        filesystem = FaultyFileSystem(tmp_path / str(at), failing_operations=None)
        filesystem.root.mkdir()
        queue = StoreBench(
            filesystem.root, is_journaled=True, filesystem=filesystem, segment_bytes=10_000
        )
        queue.publish(1)
        queue.settle_down()
        filesystem.fail_at, filesystem.error = len(filesystem.operations) + at, errno.ENOSPC
        queue.publish(600, 40)
        for start in range(1, 601, 50) if in_transactions else ():
            queue.store.mark_transaction(start, start + 50, UUID(int=start).bytes)
        while not queue.store.is_failed:
            queue.run_turns()
            queue.take_report()
        known = queue.store.written_end
        filesystem.fail_at = None

        queue.store.reopen()
        queue.take_report()
        kept += queue.log.log_end_offset > known
        assert queue.store.written_end == queue.log.log_end_offset
        queue.settle_down()

        assert queue.store.written_end == queue.log.log_end_offset == 601
        assert queue.logged() == queue.expected
        if in_transactions:
            counts = queue.log.transaction_counts(0)
            assert counts == {UUID(int=start).bytes: 50 for start in range(1, 601, 50)}
        queue.close()
    assert kept > 3


def test_a_queue_that_is_deleted_while_its_ring_is_full_returns_every_page(
    tmp_path: Path, bench: MakeBench
) -> None:
    """A publish that found all slots taken borrowed an empty page, which nobody gave back."""
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=True, filesystem=filesystem)
    queue.publish(RING_SLOTS, size=16)
    assert queue.ring.remaining_capacity == 0
    queue.publish(1, size=16)
    assert queue.store.is_stalled

    queue.store.discard()

    assert (len(queue.ring), queue.pool.held_bytes, queue.pool.lent_pages) == (0, 0, 0)
    filesystem.sync_gate.set()
