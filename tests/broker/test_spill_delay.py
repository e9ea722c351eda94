"""Publishers of a transient queue are held for consumers who read fast, and for no others."""

from pathlib import Path

from amqp_server.broker.storing.spill_delay import (
    BUDGET_SECONDS,
    PACE_BYTES,
    PACE_MESSAGES,
    RESUME_FILL,
)
from amqp_server.broker.storing.spilling import SPILL_FILL
from tests.broker.store_bench import RING_SLOTS, MakeBench, StoreBench
from tests.faults.faulty_filesystem import FaultyFileSystem

HIGH = int(RING_SLOTS * SPILL_FILL) + 1
LOW = int(RING_SLOTS * RESUME_FILL)
STEP_SECONDS = 0.001
PACE = int(PACE_MESSAGES * STEP_SECONDS) + 1


def read_queue(bench: MakeBench) -> StoreBench:
    """Return a transient queue that has a consumer."""
    queue = bench(is_journaled=False)
    queue.is_being_read = True
    return queue


def full_queue(bench: MakeBench) -> StoreBench:
    """Return one whose ring is as full as publishers may make it, after a turn."""
    queue = read_queue(bench)
    queue.publish(HIGH, 0)
    queue.run_turns()
    return queue


def consume(queue: StoreBench, count: int) -> None:
    floor = queue.settlement.ack_floor
    queue.settle(floor, floor + count)
    queue.run_turns()


def is_spilled(queue: StoreBench) -> bool:
    return queue.store.is_flushing or queue.store.written_end > 0


def test_publishers_are_held_instead_of_writing_while_consumers_make_room(
    bench: MakeBench,
) -> None:
    queue = full_queue(bench)
    assert queue.store.throttles_publishers
    assert not queue.store.is_stalled

    moves = queue.moves
    consume(queue, HIGH - LOW - 1)
    assert (queue.store.throttles_publishers, queue.moves) == (True, moves)
    consume(queue, 256)  # the ring lets go of so many at once
    assert not queue.store.throttles_publishers
    assert queue.moves > moves, "nobody was told"
    assert not is_spilled(queue)
    assert not queue.directory.exists()


def test_consumers_that_keep_pace_are_waited_for_as_long_as_it_takes(bench: MakeBench) -> None:
    queue = full_queue(bench)
    for _ in range(int(4 * BUDGET_SECONDS / STEP_SECONDS)):
        consume(queue, PACE)
        queue.publish(PACE, 0)
        queue.pass_time(STEP_SECONDS)
        assert queue.store.throttles_publishers

    assert not is_spilled(queue)


def test_consumers_of_large_messages_are_waited_for_at_a_pace_of_bytes(bench: MakeBench) -> None:
    size = 4_000
    queue = read_queue(bench)
    queue.publish(14, size)
    queue.run_turns()
    assert queue.store.throttles_publishers
    for _ in range(100):
        consume(queue, 1)
        queue.publish(1, size)
        queue.pass_time(size / PACE_BYTES)
        assert queue.store.throttles_publishers
    for _ in range(1_000):
        consume(queue, 1)
        queue.publish(1, size)
        queue.pass_time(2 * size / PACE_BYTES)
    assert is_spilled(queue)
    queue.settle_down()


def test_consumers_that_settle_nothing_are_waited_for_no_longer_than_the_budget(
    bench: MakeBench,
) -> None:
    queue = full_queue(bench)
    queue.pass_time(BUDGET_SECONDS * 0.9)
    assert queue.store.throttles_publishers
    assert not is_spilled(queue)

    moves = queue.moves
    queue.pass_time(BUDGET_SECONDS * 0.1)
    assert is_spilled(queue)
    assert not queue.store.throttles_publishers
    assert queue.moves > moves, "nobody was told"
    queue.settle_down()
    queue.assert_all_readable()


def test_a_slow_consumer_does_not_slow_the_publisher_down(bench: MakeBench) -> None:
    queue = full_queue(bench)
    held_seconds = 0.0
    for _ in range(500):
        consume(queue, PACE // 2)
        queue.settle_down()
        while not queue.store.throttles_publishers and queue.ring.fill < SPILL_FILL:
            queue.publish(PACE // 2, 0)
        queue.settle_down()
        queue.pass_time(STEP_SECONDS)
        held_seconds += STEP_SECONDS if queue.store.throttles_publishers else 0

    assert is_spilled(queue)
    # At half the pace half of the budget comes back while the other half is spent, once.
    assert held_seconds <= 2 * BUDGET_SECONDS + 2 * STEP_SECONDS


def test_a_delay_that_is_used_up_comes_back_when_all_that_was_spilled_is_settled(
    bench: MakeBench,
) -> None:
    queue = full_queue(bench)
    queue.pass_time(BUDGET_SECONDS)
    queue.settle_down()
    spilled_end = queue.store.written_end
    consume(queue, spilled_end - 1)
    queue.publish(RING_SLOTS - len(queue.ring), 0)
    queue.settle_down()
    assert not queue.store.throttles_publishers
    assert queue.store.written_end > spilled_end

    consume(queue, queue.store.cursor - spilled_end + 1)
    written_end = queue.store.written_end
    queue.publish(HIGH, 0)
    queue.run_turns()
    assert queue.store.throttles_publishers
    assert queue.store.written_end == written_end


def test_a_publisher_does_not_wait_for_a_backlog_in_the_log(bench: MakeBench) -> None:
    """However fast the consumers are that have come at last."""
    queue = bench(is_journaled=False)
    for _ in range(5):
        queue.publish(RING_SLOTS // 2, 0)
        queue.settle_down()
    assert queue.store.written_end > 0

    queue.is_being_read = True
    queue.publish(RING_SLOTS - len(queue.ring), 0)
    queue.run_turns()
    assert not queue.store.throttles_publishers
    assert queue.store.is_flushing
    queue.settle_down()


def test_a_queue_without_consumers_spills_at_once(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.publish(HIGH, 0)
    queue.run_turns()
    assert not queue.store.throttles_publishers
    assert queue.store.is_flushing
    queue.settle_down()


def test_nobody_is_waited_for_any_more_when_the_last_consumer_goes(bench: MakeBench) -> None:
    queue = full_queue(bench)
    queue.is_being_read = False
    queue.run_turns()
    assert not queue.store.throttles_publishers
    assert queue.store.is_flushing
    queue.settle_down()


def test_nobody_is_waited_for_while_all_rings_together_hold_too_much(bench: MakeBench) -> None:
    queue = full_queue(bench)
    queue.pool.bytes_max = queue.ring.held_bytes - 1
    queue.run_turns()
    assert not queue.store.throttles_publishers
    assert queue.store.is_flushing
    queue.settle_down()


def test_memory_that_is_needed_is_not_waited_for(bench: MakeBench) -> None:
    queue = full_queue(bench)
    queue.store.release_memory()
    assert not queue.store.throttles_publishers
    assert queue.store.is_flushing
    queue.settle_down()


def test_messages_without_room_wait_for_the_consumers_too(bench: MakeBench) -> None:
    queue = full_queue(bench)
    queue.publish(RING_SLOTS, 0)
    queue.run_turns()
    assert queue.store.is_stalled
    assert not is_spilled(queue)

    consume(queue, RING_SLOTS)
    assert queue.known_cursor == HIGH + RING_SLOTS
    assert not is_spilled(queue)
    queue.assert_all_readable()


def test_queues_that_are_held_together_share_the_pace_of_the_server(
    tmp_path: Path, bench: MakeBench
) -> None:
    queue = full_queue(bench)
    other = StoreBench(
        tmp_path / "other", is_journaled=False, throttled_queues=queue.throttled_queues
    )
    other.is_being_read = True
    other.publish(HIGH, 0)
    other.run_turns()
    assert queue.throttled_queues.count == 2
    for _ in range(int(4 * BUDGET_SECONDS / STEP_SECONDS)):
        for each in (queue, other):
            consume(each, PACE // 2 + 1)
            each.publish(PACE // 2 + 1, 0)
        queue.pass_time(STEP_SECONDS)
        other.run_turns()

    assert not is_spilled(queue)
    assert not is_spilled(other)
    other.store.discard()
    assert queue.throttled_queues.count == 1
    other.close()


def test_a_queue_that_is_deleted_holds_nobody(bench: MakeBench) -> None:
    queue = full_queue(bench)
    queue.store.discard()
    assert not queue.store.throttles_publishers
    assert queue.throttled_queues.count == 0


def test_a_log_that_fails_holds_nobody(tmp_path: Path, bench: MakeBench) -> None:
    """A queue whose last segment was to be sealed held its publishers for ever."""
    filesystem = FaultyFileSystem(tmp_path)
    queue = bench(is_journaled=False, filesystem=filesystem)
    queue.publish(HIGH, 0)
    queue.settle_down()
    queue.settle(0, HIGH)
    queue.is_being_read = True
    queue.publish(HIGH, 0)
    queue.run_turns()
    assert queue.store.throttles_publishers

    filesystem.fail_at = 0
    queue.store.request_roll()
    queue.until(lambda: queue.store.is_failed)
    queue.pass_time(2 * BUDGET_SECONDS)
    assert not queue.store.throttles_publishers
    assert queue.throttled_queues.count == 0
