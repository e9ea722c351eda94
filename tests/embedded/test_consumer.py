import itertools
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.directory_lock import DirectoryLock
from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError
from offsets import (
    CheckpointFailedError,
    Consumer,
    GroupLockedError,
    GroupOffsetOutOfRangeError,
    InvalidGroupNameError,
    LogNotFoundError,
    LogRoot,
    Position,
    RegressingCommitError,
)
from tests.appendlog.builders import flip
from tests.embedded.consumers import SMALL_SEGMENTS, consumer, drain, fill
from tests.embedded.logs import BY_HAND
from tests.embedded.processes import Process
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS


def test_a_group_gets_each_record_once_and_goes_on_after_a_restart(root: LogRoot) -> None:
    fill(root, "events", 20)
    with consumer(root) as reader:
        batch = reader.poll(12)
        assert batch is not None
        assert [each.offset for each in batch] == list(range(12))
        assert reader.ack_batch(batch) == 12
        assert drain(reader) == {"events": list(range(12, 20))}
    with consumer(root) as reader:
        assert reader.committed("events") == 12
        assert drain(reader) == {"events": list(range(12, 20))}


@settings(max_examples=settings().max_examples * 2 // 5, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ack"), st.integers(0, 59), st.integers(1, 12)),
            st.tuples(st.just("append"), st.integers(1, 9), st.just(0)),
            st.sampled_from([("sync", 0, 0), ("restart", 0, 0), ("crash", 0, 0), ("poll", 5, 0)]),
        ),
        max_size=30,
    )
)
def test_acks_in_any_order_are_kept_over_any_restart(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    with LogRoot.open(tmp_path_factory.mktemp("root"), SMALL_SEGMENTS) as root:
        fill(root, "events", 10)
        acked: set[int] = set()
        written: set[int] = set()
        reader = consumer(root)
        for step, first, count in steps:
            end = root.log("events").end_offset
            if step == "ack":
                start, stop = min(first, end), min(first + count, end)
                reader.lag()
                assert reader.ack_range("events", start, stop) == len({*range(start, stop)} - acked)
                acked |= {*range(start, stop)}
            elif step == "append":
                fill(root, "events", first)
            elif step == "poll":
                reader.poll(first)
            elif step == "sync":
                reader.sync()
                written = set(acked)
            else:
                if step == "restart":
                    reader.close()
                    written = set(acked)
                else:
                    reader._release()
                    acked = set(written)
                reader = consumer(root)
        end = root.log("events").end_offset
        floor = next(each for each in itertools.count() if each not in acked)
        assert reader.lag().total == end - floor
        reader.close()
        with consumer(root) as reader:
            assert drain(reader).get("events", []) == sorted({*range(end)} - acked)


@settings(max_examples=settings().max_examples // 4, deadline=None)
@given(st.sets(st.integers(0, 49)), st.integers(1, 20))
def test_what_was_not_acked_comes_again_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, acked: set[int], max_records: int
) -> None:
    with LogRoot.open(tmp_path_factory.mktemp("root"), SMALL_SEGMENTS) as root:
        fill(root, "events", 50)
        order = list(acked)
        random.Random(7).shuffle(order)
        with consumer(root) as reader:
            for offset in order:
                assert reader.ack("events", offset) == 1
                assert reader.ack("events", offset) == 0
        rest = sorted({*range(50)} - acked)
        with consumer(root) as reader:
            assert drain(reader, max_records).get("events", []) == rest
            assert reader.statistics().delivered == len(rest)


def test_groups_do_not_know_of_each_other(root: LogRoot) -> None:
    fill(root, "events", 5)
    with consumer(root, "a") as first, consumer(root, "b") as second:
        first.ack_range("events", 0, 5)
        assert (first.lag().total, second.lag().total) == (0, 5)
        first.sync()
        second.ack("events", 2)
        second.sync()
        first.seek(Position.at_offset(3))
        first.sync()
    with consumer(root, "a") as first, consumer(root, "b") as second:
        assert drain(first) == {"events": [3, 4]}
        assert drain(second) == {"events": [0, 1, 3, 4]}


def test_lag_is_told_by_log_and_in_total(root: LogRoot) -> None:
    fill(root, "events-0000", 5)
    fill(root, "events-0001", 7)
    with consumer(root) as reader:
        reader.ack_range("events-0001", 0, 3)
        assert reader.lag().logs == {"events-0000": 5, "events-0001": 4}
        assert reader.lag().total == reader.statistics().lag == 9
        fill(root, "events-0000", 1)
        assert reader.lag().total == 10


def test_the_logs_of_a_pattern_take_turns_and_new_ones_join(root: LogRoot) -> None:
    for name in ("events-0000", "events-0001", "other"):
        fill(root, name, 3)
    with consumer(root, pattern="events-*") as reader:
        assert reader.logs == ["events-0000", "events-0001"]
        first, second = reader.poll(1), reader.poll(1)
        assert first is not None
        assert second is not None
        assert {first.log, second.log} == {"events-0000", "events-0001"}
        drain(reader)
        fill(root, "events-0002", 2)
        assert drain(reader) == {"events-0002": [0, 1]}


def test_workers_share_the_logs_of_a_group(root: LogRoot) -> None:
    for number in range(5):
        fill(root, f"events-{number:04}", 2)
    with consumer(root, worker=(0, 2)) as even, consumer(root, worker=(1, 2)) as odd:
        assert even.logs == ["events-0000", "events-0002", "events-0004"]
        assert odd.logs == ["events-0001", "events-0003"]
        fill(root, "events-0005", 1)
        assert "events-0005" not in drain(even)
        assert "events-0005" in drain(odd)


def test_a_log_that_appears_is_read_from_its_beginning(root: LogRoot) -> None:
    fill(root, "events-0000", 5)
    with consumer(root, start=Position.LATEST) as reader:
        fill(root, "events-0001", 2)
        assert drain(reader) == {"events-0001": [0, 1]}


def test_a_commit_that_goes_back_is_refused_and_changes_nothing(root: LogRoot) -> None:
    fill(root, "events", 10)
    with consumer(root) as reader:
        assert reader.commit("events", 6) == 0 or reader.committed("events") == 6
        assert reader.commit("events", 6) == 0
        with pytest.raises(RegressingCommitError, match="6"):
            reader.commit("events", 5)
        with pytest.raises(GroupOffsetOutOfRangeError):
            reader.commit("events", 11)
        assert reader.committed("events") == 6


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (3, 2), (0, 6)])
def test_acks_of_what_nobody_can_have_seen_are_refused(root: LogRoot, start: int, end: int) -> None:
    fill(root, "events", 5)
    with consumer(root) as reader:
        with pytest.raises(GroupOffsetOutOfRangeError):
            reader.ack_range("events", start, end)
        assert reader.lag().total == 5


def test_names_that_lead_nowhere_are_told(root: LogRoot, tmp_path: Path) -> None:
    fill(root, "events", 1)
    with consumer(root, pattern="nothing-*") as reader:
        assert reader.poll() is None
        with pytest.raises(LogNotFoundError, match="'events'"):
            reader.ack("events", 0)
    with pytest.raises(InvalidGroupNameError):
        consumer(root, "")
    with pytest.raises(StorageUnavailableError):
        Consumer(tmp_path / "missing", "g")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageFormatError):
        Consumer(tmp_path / "empty", "g")


def test_what_retention_took_is_counted_once(root: LogRoot) -> None:
    fill(root, "events", 100)
    with consumer(root) as reader:
        reader.ack_range("events", 3, 5)
        log = root.log("events")
        log.remove_below(50)
        start = log.log.log_start_offset
        assert 0 < start <= 50
        batch = reader.poll(1)
        assert batch is not None
        assert batch.offsets == [start]
        assert reader.dropped_since_last_poll == start - 2
        reader.poll(1)
        assert reader.dropped_since_last_poll == 0
        assert reader.statistics().dropped_total == start - 2
    with consumer(root) as reader:
        assert drain(reader) == {"events": list(range(start, 100))}
        assert reader.statistics().dropped_total == start - 2


def test_records_that_are_damaged_hold_nobody_up(root: LogRoot, tmp_path: Path) -> None:
    fill(root, "events", 100)
    segment = sorted(tmp_path.rglob("*.log"))[1]
    flip(segment, 300)
    with consumer(root) as reader:
        found = drain(reader)["events"]
        assert found != list(range(100))
        assert reader.statistics().lost_records == 100 - len(found) > 0
        for offset in found:
            reader.ack("events", offset)
        assert reader.lag().total == 0


def test_a_second_consumer_of_a_group_is_refused_and_told_the_pid(root: LogRoot) -> None:
    fill(root, "events", 5)
    with Process(HOLD, root.path) as holder:
        assert holder.line() == "held"
        with pytest.raises(GroupLockedError, match=f"process {holder.pid}") as refused:
            consumer(root)
        assert (refused.value.pid, refused.value.log) == (holder.pid, "events")
        consumer(root, "other").close()
        holder.kill()
        with consumer(root) as reader:
            assert drain(reader) == {"events": [3, 4]}
            with pytest.raises(GroupLockedError, match=f"process {os.getpid()}"):
                consumer(root)


def test_the_lock_of_a_group_that_was_deleted_is_made_again_or_refuses_the_commit(
    root: LogRoot,
) -> None:
    fill(root, "events", 5)
    with consumer(root) as reader:
        (lock,) = (path for path in root.path.glob("locks/g/*"))
        lock.unlink()
        reader.ack("events", 0)
        reader.sync()
        with pytest.raises(GroupLockedError):
            consumer(root)
        lock.unlink()
        with consumer(root) as other:
            other.ack("events", 1)
            reader.ack("events", 4)
            with pytest.raises(GroupLockedError, match=f"process {os.getpid()}"):
                reader.sync()
        # What is not committed is not lost: the other has gone.
        lock.unlink()
        reader.sync()
    with consumer(root) as again:
        assert drain(again) == {"events": [1, 2, 3]}


HOLD = """
from offsets import Consumer
consumer = Consumer(root, "g")
consumer.ack_range("events", 0, 3)
consumer.sync()
consumer.ack_range("events", 3, 5)
print("held", flush=True)
sys.stdin.readline()
"""


def test_no_server_starts_beside_a_consumer_and_no_consumer_beside_a_server(
    root: LogRoot,
) -> None:
    root.close()
    with Consumer(root.path, "g"), pytest.raises(StorageLockedError):
        DirectoryLock.acquire(root.path)
    with DirectoryLock.acquire(root.path), pytest.raises(StorageLockedError):
        Consumer(root.path, "g")


def test_acks_are_written_down_by_poll_every_so_often(root: LogRoot) -> None:
    fill(root, "events", 5)
    reader = consumer(root, sync_interval_seconds=0.001)
    reader.ack_range("events", 0, 2)
    time.sleep(0.002)
    reader.poll(1)
    age = reader.statistics().checkpoint_age_seconds
    assert age is not None
    reader._release()
    with consumer(root) as again:
        assert drain(again) == {"events": [2, 3, 4]}


def test_a_poll_waits_for_what_another_process_appends(tmp_path: Path) -> None:
    LogRoot.open(tmp_path, BY_HAND).close()
    with Process(APPEND_WHEN_TOLD, tmp_path) as writer, Consumer(tmp_path, "g") as reader:
        assert writer.line() == "ready"
        assert reader.poll() is None
        writer.tell("go")
        batch = None
        while batch is None:
            batch = reader.poll(timeout_seconds=HANG_SECONDS)
        assert batch.payloads == [b"hello"]


APPEND_WHEN_TOLD = """
from offsets import LogRoot
with LogRoot.open(root) as opened:
    print("ready", flush=True)
    sys.stdin.readline()
    opened.append("events", b"hello")
"""


UNAWAITED_ROUNDS = 20
"""What a consumer that is killed still has to do then."""


@pytest.mark.crash
def test_consumers_of_two_groups_and_a_writer_that_are_killed_lose_no_synced_ack(
    tmp_path: Path,
) -> None:
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        fill(root, "events", 1_000)
    floors = {"a": 0, "b": 0}
    for number in range(3):
        with Process(CONSUME, tmp_path) as first, Process(CONSUME, tmp_path) as second:
            processes = {"a": first, "b": second}
            for group, process in processes.items():
                process.tell(group)
                assert int(process.line()) >= floors[group]
            rounds = random.Random(number).randrange(1, 15)
            for process in processes.values():
                # The last few are under way when it is killed. Not all that there is to consume,
                # however long that takes.
                process.tell("go on\n" * (rounds + UNAWAITED_ROUNDS))
            for _ in range(rounds):
                for group, process in processes.items():
                    floors[group] = int(process.line())
            for group, process in processes.items():
                lines = process.kill()
                floors[group] = int(lines[-1]) if lines else floors[group]
    for group, floor in floors.items():
        with Consumer(tmp_path, group) as reader:
            assert (reader.committed("events") or 0) >= floor > 0


CONSUME = """
from offsets import Consumer
consumer = Consumer(root, sys.stdin.readline().strip(), sync_interval_seconds=0.0)
print(consumer.committed("events") or 0, flush=True)
while sys.stdin.readline():
    batch = consumer.poll(5)
    for offset in reversed(batch.offsets):
        consumer.ack("events", offset)
    consumer.sync()
    print(consumer.committed("events"), flush=True)
"""


@pytest.mark.crash
def test_a_sync_that_fails_at_any_operation_loses_nothing_that_was_synced(root: LogRoot) -> None:
    fill(root, "events", 300)
    done = number = 0
    while True:
        filesystem = FaultyFileSystem(root.path, failing_operations=1)
        reader = consumer(root, filesystem=filesystem)
        assert (reader.committed("events") or 0) >= done
        reader.ack_range("events", 0, done + 1)
        filesystem.fail_at = len(filesystem.operations) + number
        try:
            reader.sync()
        except CheckpointFailedError:
            reader.ack_range("events", 0, done + 2)
            # It is tried again, and has all of it.
            reader.sync()
            done += 1
            is_over = False
        else:
            is_over = len(filesystem.operations) <= filesystem.fail_at
        done += 1
        reader._release()
        if is_over:
            break
        number += 1
    with consumer(root) as reader:
        assert reader.committed("events") == done > 1


def test_a_server_that_is_refused_is_told_who_writes(root: LogRoot) -> None:
    with pytest.raises(StorageLockedError, match=f"process {os.getpid()}"):
        DirectoryLock.acquire(root.path)
