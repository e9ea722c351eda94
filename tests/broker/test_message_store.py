"""Where message N is: in the ring or in the log, whatever the ring gives up.

Real logs, real threads; see `store_bench` for how they are kept in step.
"""

from pathlib import Path

import pytest

from amqp_server.base.config import Durability
from amqp_server.broker.storing.spilling import SPILL_FILL
from appendlog import FileSystem
from appendlog.segments.written_pages import STEP_BYTES
from tests.broker.store_bench import RING_BYTES, RING_SLOTS, MakeBench, StoreBench
from tests.faults.faulty_filesystem import FaultyFileSystem

both_kinds = pytest.mark.parametrize("is_journaled", [True, False], ids=["durable", "transient"])


# What is published can be read


@both_kinds
def test_a_backlog_far_larger_than_the_ring_is_read_in_full_and_in_order(
    bench: MakeBench, is_journaled: bool
) -> None:
    queue = bench(is_journaled=is_journaled, segment_bytes=100_000)
    for _ in range(20):
        queue.publish(400)
        queue.settle_down()

    assert not queue.store.is_stalled
    assert queue.store.cursor == 8_000
    assert queue.ring.window_start > 6_000
    assert queue.ring.held_bytes <= RING_BYTES
    queue.assert_all_readable()


def test_messages_can_be_read_before_the_disk_has_them(tmp_path: Path, bench: MakeBench) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=True, filesystem=filesystem)
    queue.publish(10)
    queue.store.run_journal(may_wait=False)
    filesystem.sync_waiting.wait()

    assert queue.read(0, 10) == list(queue.expected.values())
    assert queue.store.confirmed_end == 0
    filesystem.sync_gate.set()
    queue.settle_down()
    assert queue.store.confirmed_end == 10


def test_a_recovered_backlog_is_read_from_the_log(tmp_path: Path, bench: MakeBench) -> None:
    before = bench(is_journaled=True)
    for _ in range(5):
        before.publish(1_000)
        before.settle_down()
    before.log.close()

    after = bench(is_journaled=True)
    after.expected = before.expected

    assert (after.store.cursor, after.store.written_end, after.pool.lent_pages) == (5_000,) * 2 + (
        0,
    )
    after.publish(100)
    after.assert_all_readable()


def test_messages_of_every_size_survive_the_way_through_ring_and_log(bench: MakeBench) -> None:
    queue = bench(is_journaled=True, segment_bytes=300_000)
    for size in (0, 8, 4_096, RING_BYTES, 3 * RING_BYTES, 8, 2_000_000, 8):
        queue.publish(2, size)
        queue.settle_down()

    queue.assert_all_readable()
    assert queue.logged() == queue.expected


def test_a_read_gives_no_more_than_was_asked_for(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(500)
    queue.settle_down()
    queue.publish(1_000)
    queue.settle_down()
    start = queue.ring.window_start

    assert start > 100
    assert queue.read(3, 5) == [queue.expected[3], queue.expected[4]]
    for offset in (10, start - 1, start, queue.store.cursor - 1):
        assert queue.read(offset, offset + 1) == [queue.expected[offset]]
    assert queue.read(start - 5, start + 5) == [queue.expected[start + at] for at in range(-5, 5)]


# The journal of a durable queue


def test_the_log_of_a_durable_queue_holds_every_message(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(1_000)
    queue.settle(0, 500)
    queue.settle_down()

    assert queue.logged() == queue.expected
    assert queue.store.written_end == queue.store.recovery_point == 1_000


def test_only_persistent_messages_wait_for_the_disk(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(10, persistent=False)
    queue.settle_down()
    assert (queue.store.written_end, queue.store.recovery_point) == (10, 0)

    queue.store.request_sync()
    queue.settle_down()
    assert queue.store.recovery_point == queue.log.recovery_point == 10

    queue.publish(5, persistent=False)
    queue.publish(1)
    queue.settle_down()
    assert queue.store.recovery_point == 16


@pytest.mark.parametrize(
    ("durability", "accepted", "written", "synced"),
    [
        (Durability.FSYNC, 0, 0, 10),
        (Durability.WRITE, 0, 10, 10),
        (Durability.NONE, 10, 10, 10),
    ],
)
def test_each_durability_confirms_at_its_own_moment(
    bench: MakeBench, durability: Durability, accepted: int, written: int, synced: int
) -> None:
    queue = bench(is_journaled=True, durability=durability)
    queue.publish(10)
    assert queue.store.confirmed_end == accepted
    queue.settle_down()
    if durability is Durability.FSYNC:
        assert queue.store.recovery_point == 10
    else:
        assert queue.store.recovery_point == 0
        assert queue.store.confirmed_end == written
    queue.store.request_sync()
    queue.settle_down()
    assert (queue.store.confirmed_end, queue.store.recovery_point) == (synced, 10)


def test_messages_wait_to_share_a_write_until_a_turn_without_new_ones(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(1)
    queue.store.run_journal()
    assert queue.store.is_flushing, "the first message waits for nothing"
    queue.settle_down()
    queue.publish(2)
    queue.store.run_journal()
    assert queue.store.is_flushing, "the last write held one message"
    queue.settle_down()

    queue.publish(1)
    queue.store.run_journal()
    assert not queue.store.is_flushing
    for _ in range(3):
        queue.publish(1)
        moves = queue.moves
        queue.turn()
        assert queue.moves == moves
    queue.turn()
    assert queue.moves == moves + 1, "nothing was published since the last turn"
    queue.store.run_journal()
    assert queue.store.is_flushing
    queue.settle_down()
    assert queue.store.confirmed_end == 7
    assert not queue.turns


def test_messages_wait_for_no_others_while_the_ring_is_full(bench: MakeBench) -> None:
    queue = bench(is_journaled=True, flush_bytes=1 << 20)
    queue.publish(2)
    queue.settle_down()
    queue.publish(queue.store.ring.capacity + 1)

    assert queue.store.is_stalled
    assert queue.store.run_journal() is False
    assert queue.store.is_flushing


def test_messages_that_may_not_wait_are_written(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(2)
    queue.settle_down()
    queue.publish(1)

    assert queue.store.run_journal(may_wait=False) is False
    assert queue.store.is_flushing


def test_a_held_journal_writes_nothing_until_it_is_let_go(bench: MakeBench) -> None:
    """A message must not be safer than its queue."""
    queue = bench(is_journaled=True)
    queue.store.awaits_definition = True
    queue.publish(10)
    queue.settle_down()
    assert (queue.store.confirmed_end, queue.directory.exists()) == (0, False)

    queue.store.awaits_definition = False
    queue.settle_down()
    assert queue.store.confirmed_end == 10


# Spill of a transient queue


def test_a_transient_queue_touches_no_disk_below_the_spill_fill(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(int(RING_SLOTS * SPILL_FILL) - 1, 0)
    queue.settle_down()

    assert queue.ring.fill < SPILL_FILL
    assert (queue.store.written_end, queue.directory.exists()) == (0, False)
    queue.publish(2, 0)
    queue.settle_down()
    assert queue.ring.fill < SPILL_FILL
    assert queue.store.written_end > 0
    queue.assert_all_readable()


def test_a_transient_queue_spills_when_bytes_are_short_too(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(8, 6_000)
    queue.settle_down()
    assert queue.store.written_end == 0

    queue.publish(1, 6_000)
    queue.settle_down()
    assert queue.store.written_end > 0
    queue.assert_all_readable()


def test_what_was_settled_in_memory_is_never_written(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(800, 0)
    queue.settle(0, 100)
    for offset in range(101, 800, 2):
        queue.settle(offset, offset + 1)
    queue.publish(200, 0)
    queue.settle_down()

    logged = queue.logged()
    assert logged
    assert all(not queue.settlement.is_settled(offset) for offset in logged)
    queue.assert_all_readable()


def test_a_full_ring_of_settled_messages_is_given_up_without_writing(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(RING_SLOTS, 0)
    queue.settle(1, RING_SLOTS)
    queue.publish(RING_SLOTS - 1, 0)
    queue.settle_down()

    assert not queue.store.is_stalled
    assert set(queue.logged()) <= {0, *range(RING_SLOTS, 2 * RING_SLOTS)}
    queue.assert_all_readable()


def test_a_transient_queue_that_keeps_up_never_spills(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    for lap in range(10):
        queue.publish(500)
        assert queue.read(lap * 500, lap * 500 + 500)
        queue.settle(lap * 500, lap * 500 + 500)
        queue.settle_down()

    assert (queue.store.written_end, queue.directory.exists()) == (0, False)
    assert queue.pool.lent_pages == 0


# Memory


@both_kinds
def test_a_drained_queue_holds_no_page(bench: MakeBench, is_journaled: bool) -> None:
    queue = bench(is_journaled=is_journaled)
    queue.publish(100)
    queue.settle_down()
    queue.settle(0, 99)
    assert queue.pool.lent_pages == 1
    queue.settle(99, 100)

    assert (queue.pool.lent_pages, queue.pool.held_bytes) == (0, 0)


def test_a_queue_drained_before_the_disk_had_it_holds_no_page(bench: MakeBench) -> None:
    """Delivery runs ahead of the disk, so the last ack can come before the last flush."""
    queue = bench(is_journaled=True)
    queue.publish(100)
    queue.store.run_journal(may_wait=False)
    queue.settle(0, 100)
    queue.settle_down()

    assert (queue.pool.lent_pages, queue.pool.held_bytes) == (0, 0)


def test_a_durable_queue_gives_up_what_the_log_has(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(100)
    queue.settle_down()
    queue.publish(50)

    queue.store.release_memory()

    assert (queue.ring.window_start, queue.store.cursor) == (100, 150)
    queue.assert_all_readable()


def test_a_transient_queue_that_must_give_up_memory_writes_it_out(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(200)
    while queue.store.written_end < 200:
        written = queue.store.written_end
        queue.store.release_memory()
        queue.settle_down()
        assert queue.store.written_end > written
    queue.store.release_memory()

    assert queue.ring.window_start == queue.store.written_end == 200
    assert queue.pool.held_bytes == 0
    queue.assert_all_readable()


def test_a_transient_queue_writes_what_it_has_just_got_in_its_turn_in_which_it_delivers(
    bench: MakeBench,
) -> None:
    queue = bench(is_journaled=False)
    queue.publish(10)
    queue.run_turns()
    queue.publish(1)
    moves = queue.moves

    queue.store.release_memory()

    assert not queue.store.is_flushing
    assert queue.moves > moves, "it gets the turn"
    assert queue.store.leaving_bytes == queue.ring.held_bytes > 0
    queue.run_turns()
    assert queue.store.is_flushing
    queue.settle_down()
    assert queue.store.leaving_bytes == 0
    assert queue.ring.window_start == queue.store.written_end == 11
    queue.assert_all_readable()


def test_a_transient_queue_that_had_its_turn_writes_for_memory_at_once(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(10)
    queue.run_turns()

    queue.store.release_memory()

    assert queue.store.is_flushing


def test_a_journal_that_is_held_is_not_written_for_memory_either(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.store.awaits_definition = True
    queue.publish(100)
    queue.store.release_memory()
    queue.settle_down()

    assert (queue.store.written_end, queue.ring.window_start) == (0, 0)
    queue.assert_all_readable()


def test_a_queue_that_is_always_busy_is_synced_when_asked(bench: MakeBench) -> None:
    """Asked while a write was under way, it used to forget: no checkpoint could follow it."""
    queue = bench(is_journaled=True, durability=Durability.WRITE)
    queue.publish(10)
    queue.run_turns()
    assert queue.store.is_flushing
    queue.store.request_sync()
    queue.publish(10)
    queue.settle_down()
    assert queue.store.recovery_point == 20


def test_a_queue_that_falls_silent_is_synced_when_asked(bench: MakeBench) -> None:
    queue = bench(is_journaled=True, durability=Durability.WRITE)
    queue.publish(10)
    queue.run_turns()
    queue.store.request_sync()
    queue.settle_down()
    assert queue.store.recovery_point == 10


# What is settled need not stay in the page cache


class AdvisedFileSystem(FileSystem):
    """Counts what the kernel was told that it need not keep."""

    advised_bytes = 0

    def wont_need(self, descriptor: int, position: int, size: int) -> None:
        self.advised_bytes += size


def publish_and_settle(queue: StoreBench, size_bytes: int) -> None:
    """Let a queue take and settle messages, a ring of them at a time."""
    for _ in range(size_bytes // RING_BYTES):
        start = queue.store.end_offset
        queue.publish(1, RING_BYTES)
        queue.settle_down()
        queue.settle(start, start + 1)


def test_page_cache_of_what_is_settled_is_let_go_of(bench: MakeBench) -> None:
    filesystem = AdvisedFileSystem()
    queue = bench(is_journaled=True, filesystem=filesystem, segment_bytes=1 << 30)
    publish_and_settle(queue, 4 * STEP_BYTES)
    assert 2 * STEP_BYTES < filesystem.advised_bytes <= 4 * STEP_BYTES


def test_page_cache_stays_once_somebody_reads_what_is_settled(bench: MakeBench) -> None:
    filesystem = AdvisedFileSystem()
    queue = bench(is_journaled=True, filesystem=filesystem, segment_bytes=1 << 30)
    assert queue.store.windows.shared is not None
    publish_and_settle(queue, 4 * STEP_BYTES)
    assert filesystem.advised_bytes == 0
