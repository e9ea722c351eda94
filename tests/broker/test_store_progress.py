"""A store hands over one value: at once when the disk has answered, else in its queue's turn."""

import errno
from pathlib import Path

import pytest

from tests.broker.store_bench import RING_SLOTS, MakeBench
from tests.faults.faulty_filesystem import FaultyFileSystem


def test_room_made_by_settling_waits_for_the_turn_of_the_queue(
    tmp_path: Path, bench: MakeBench
) -> None:
    """The queue was called back in the middle of its settle."""
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    queue = bench(is_journaled=False, filesystem=filesystem)
    queue.publish(RING_SLOTS, 0)
    queue.publish(10, 0)
    before = queue.progress

    queue.settle(0, 500)

    assert (queue.answers, queue.progress) == (0, before)
    assert queue.store.has_progressed
    queue.take_progress()
    assert not queue.store.throttles_publishers
    assert not queue.store.has_progressed
    filesystem.sync_gate.set()


def test_publishers_go_on_in_the_turn_after_consumers_made_room(bench: MakeBench) -> None:
    queue = bench(is_journaled=False)
    queue.is_being_read = True
    queue.publish(RING_SLOTS * 9 // 10, 0)
    queue.run_turns()
    assert queue.store.throttles_publishers

    queue.settle(0, RING_SLOTS // 2)

    assert queue.store.has_progressed
    queue.take_progress()
    assert not queue.store.throttles_publishers


def test_an_answer_of_the_disk_waits_for_no_turn(bench: MakeBench) -> None:
    queue = bench(is_journaled=True)
    queue.publish(10)
    assert (queue.progress.confirmed_end, queue.progress.readable_end) == (0, 0)
    queue.store.run_journal(may_wait=False)

    queue.take_report()

    assert queue.answers == 1
    assert (queue.progress.confirmed_end, queue.progress.readable_end) == (10, 10)


def test_a_failed_log_and_its_return_are_two_answers(tmp_path: Path, bench: MakeBench) -> None:
    filesystem = FaultyFileSystem(tmp_path, fail_at=0, error=errno.ENOSPC)
    queue = bench(is_journaled=True, filesystem=filesystem)
    queue.publish(10)

    queue.until(lambda: queue.progress.is_failed)

    assert queue.answers == 1
    assert queue.progress.confirmed_end == 0
    assert not queue.store.throttles_publishers
    filesystem.fail_at = None
    queue.store.reopen()
    queue.until(lambda: not queue.progress.is_failed)
    queue.settle_down()
    assert queue.progress.confirmed_end == 10
    queue.assert_all_readable()


def test_lost_records_are_reported_once_and_in_a_turn(bench: MakeBench) -> None:
    queue = bench(is_journaled=True, flush_bytes=1_000)
    queue.publish(3_000)
    queue.settle_down()
    segment = next(queue.directory.glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[200] ^= 1  # within the first chunk
    segment.write_bytes(content)
    answers = queue.answers
    assert queue.store.read(0, 10) == []

    queue.take_report()

    ((start, end),) = queue.lost
    assert start == 0 < end
    assert (queue.answers, queue.store.take_progress().lost) == (answers, ())


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_log_that_ends_later_than_before_goes_on_behind_its_end(
    tmp_path: Path, bench: MakeBench, monkeypatch: pytest.MonkeyPatch, in_transaction: bool
) -> None:
    """The segment that a failed append has sealed stays, with records that nobody confirmed."""
    # All messages are in one write, however slow the machine is.
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 1_000.0)
    filesystem = FaultyFileSystem(tmp_path, error=errno.ENOSPC)
    queue = bench(is_journaled=True, filesystem=filesystem, flush_bytes=1_000, segment_bytes=4_096)
    queue.publish(10)
    queue.settle_down()
    filesystem.fail_at = len(filesystem.operations) + 12
    queue.publish(600)
    if in_transaction:
        # It ends below where the log will end.
        queue.store.mark_transaction(10, 12, b"t" * 16)
    queue.until(lambda: queue.progress.is_failed)
    filesystem.fail_at = None
    assert queue.store.written_end == 10
    queue.store.reopen()
    while queue.store.is_failed:
        queue.take_report()
    # Offsets below the end of the log are never written again.
    assert queue.store.written_end == queue.log.log_end_offset > 10
    assert queue.store.recovery_point == queue.log.recovery_point
    queue.publish(30)
    queue.settle_down()
    assert sorted(queue.logged()) == list(range(queue.store.end_offset))
    queue.assert_all_readable()
