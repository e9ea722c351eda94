"""The export from a plan to a commit: several queues, damage, loss, ranges. No Spark in it."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appendlog import Append
from appendlog.files.filesystem import FileSystem
from appendlog.spark.errors import CorruptLogError, DataLossError, OutputError
from appendlog.spark.exporting import export_plan
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.export_plan import ExportRequest
from appendlog.spark.exporting.files.file_task import FileTask
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.planning.settlement import Include
from offsets import CheckpointStore, QueueCheckpoint
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.damage import flip_middle
from tests.spark.local_exports import (
    PARQUET,
    LocalRunner,
    destination,
    export,
    plan,
    request,
    run_all,
)
from tests.spark.plain_reader import expected_rows, written_rows


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 2000)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=8192)
    yield queue
    queue.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", "other", segment_bytes=8192)
    queue.append(plain_messages(100), step=10)
    yield queue
    queue.close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def damage(stored: StoredQueue) -> Path:
    """Flip a bit in the middle of the second segment."""
    path = stored.segments()[1]
    flip_middle(path)
    return path


def test_running_it_again_adds_what_is_new_and_nothing_twice(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(200), step=10)
    assert export(stored, out) is not None
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    assert len(files) > 3
    assert export(stored, out) is None
    stored.append(plain_messages(100), step=10)
    report = export(stored, out)
    assert report is not None
    assert report.rows == 100
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert written_rows(out) == expected_rows(stored.location)


def test_ranges_that_overlap_write_each_offset_once(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(300), step=10)
    for since, until in [(50, 120), (100, 207), (0, 60), (33, 300)]:
        assert export(stored, out, request(since, until)) is not None
    assert written_rows(out) == expected_rows(stored.location)


def test_a_range_is_exactly_that_range(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(300), step=10)
    export(stored, out, request(41, 259))
    assert written_rows(out) == expected_rows(stored.location, 41, 259)


def test_an_unsynced_tail_is_exported_when_it_is_synced(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(60), step=10)
    stored.append(plain_messages(60), sync=False, step=10)
    export(stored, out)
    assert [row["offset"] for row in written_rows(out)] == list(range(60))
    stored.log.append(Append([], stored.log.log_end_offset, sync=True))
    export(stored, out)
    assert [row["offset"] for row in written_rows(out)] == list(range(120))


def test_a_torn_tail_behind_the_durable_end_is_ignored(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(60), step=10)
    with stored.segments()[-1].open("ab") as file:
        file.write(b"AQLC half a chunk")
    export(stored, out)
    assert written_rows(out) == expected_rows(stored.location, 0, 60)


def test_damage_stops_the_export_and_leaves_the_output_as_it_was(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)
    export(stored, out, request(until=20))
    path = damage(stored)
    with pytest.raises(CorruptLogError, match=path.name) as caught:
        export(stored, out)
    assert "position" in str(caught.value)
    assert "offset" in str(caught.value)
    assert written_rows(out) == expected_rows(stored.location, 0, 20)
    assert not list(out.rglob("job-*"))


def test_damage_in_quarantine_is_accounted_for_and_never_exported_again(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)
    damage(stored)
    settings = replace(PARQUET, skips_damage=True)
    report = export(stored, out, ExportRequest(skips_damage=True), settings)
    assert report is not None
    assert report.corrupt == 10
    assert report.rows == 290
    assert len(written_rows(out)) == 290
    assert len(list((out / "_corrupt").rglob("*.json"))) == 1
    assert export(stored, out) is None


def test_a_segment_that_vanishes_after_planning_is_data_loss(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)

    def remove(_: FileTask) -> None:
        stored.log.remove_settled(150)

    with pytest.raises(DataLossError):
        export(stored, out, runner=LocalRunner(before_task=remove))
    assert not list(out.rglob("*.parquet"))


def test_loss_that_is_allowed_is_a_gap_and_covered(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(300), step=10)
    export(stored, out, request(until=20))
    stored.log.remove_settled(200)
    start = stored.log.log_start_offset
    with pytest.raises(DataLossError):
        export(stored, out)
    report = export(stored, out, ExportRequest(allows_loss=True))
    assert report is not None
    assert report.missing == start - 20
    assert report.gaps == ((20, start),)
    assert destination(stored, out).covered() == [(0, 300)]
    assert export(stored, out) is None


def test_an_output_that_changed_since_the_planning_is_refused(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(100), step=10)
    to = destination(stored, out)
    planned = plan(stored, to)
    export(stored, out, request(until=10))
    (outcome,) = run_all([QueueExport(planned, to)])
    assert isinstance(outcome.error, OutputChangedError)
    assert len(written_rows(out)) == 10


def test_gaps_are_counted_and_told(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(20), step=10)
    stored.skip(30)
    stored.append(plain_messages(20), step=10)
    report = export(stored, out)
    assert report is not None
    assert (report.rows, report.missing, report.gaps) == (40, 30, ((20, 50),))


def test_a_queue_of_gaps_alone_is_exported_without_a_task_that_writes(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(10))
    export(stored, out)
    stored.skip(40)
    report = export(stored, out)
    assert report is not None
    assert (report.files, report.rows, report.gaps) == (0, 0, ((10, 50),))
    assert export(stored, out) is None


@pytest.mark.parametrize("include", [Include.ACKED, Include.UNACKED])
def test_what_is_settled_makes_the_rows(stored: StoredQueue, out: Path, include: Include) -> None:
    stored.append(plain_messages(300), step=10)
    store, _, _ = CheckpointStore.open(stored.storage_path / "offsets", FileSystem())
    ranges = [(120, 121), (200, 290)]
    store.write_round([QueueCheckpoint(stored.location.incarnation, 100, ranges)])
    store.close()
    acked = {*range(100), 120, *range(200, 290)}
    wanted = acked if include is Include.ACKED else set(range(300)) - acked
    report = export(stored, out, ExportRequest(include=include))
    assert report is not None
    assert [row["offset"] for row in written_rows(out)] == sorted(wanted)
    span = max(wanted) + 1 - min(wanted)
    assert (report.rows, report.excluded) == (len(wanted), span - len(wanted))
    assert export(stored, out, ExportRequest(include=include)) is None


def test_what_was_not_acked_yet_is_for_a_later_run(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(300), step=10)
    wanted = ExportRequest(include=Include.ACKED, is_since_last=True)
    for floor in (0, 70, 70, 200, 300):
        store, _, _ = CheckpointStore.open(stored.storage_path / "offsets", FileSystem())
        store.write_round([QueueCheckpoint(stored.location.incarnation, floor)])
        store.close()
        export(stored, out, wanted)
        assert [row["offset"] for row in written_rows(out)] == list(range(floor))


def test_an_output_holds_one_choice_of_messages(stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(100), step=10)
    export(stored, out, request(until=50))
    with pytest.raises(OutputError, match="--include all"):
        export(stored, out, ExportRequest(include=Include.UNACKED))


def test_folders_by_day_are_what_readers_of_partitions_expect(
    stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(50), step=10)
    day_ns = 86_400 * 10**9
    stored.append_at(plain_messages(50), (1_700_000_000 * 10**9 // day_ns + 2) * day_ns)
    export(stored, out, ExportRequest(partition_by=PartitionBy.DAY))
    folders = {path.name: len(list(path.iterdir())) for path in (out / "queue=orders").iterdir()}
    assert sorted(folders) == ["date=2023-11-14", "date=2023-11-16"]
    assert written_rows(out) == expected_rows(stored.location)
    assert export(stored, out) is None


def test_all_queues_are_one_job_and_each_has_a_commit_of_its_own(
    stored: StoredQueue, other: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)
    damage(stored)
    runner = LocalRunner()
    queues = [stored, other]
    exports = [
        QueueExport(plan(each, to), to) for each in queues for to in [destination(each, out)]
    ]
    outcomes = {each.export.plan.log.queue: each for each in run_all(exports, runner=runner)}
    assert {task.log.queue for task in runner.tasks} == {"orders", "other"}
    assert isinstance(outcomes["orders"].error, CorruptLogError)
    assert outcomes["other"].report is not None
    assert written_rows(out) == expected_rows(other.location)


def test_a_queue_whose_output_is_busy_does_not_hold_the_others(
    stored: StoredQueue, other: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(30), step=10)
    busy = destination(stored, out)
    with busy.begin(plan(stored, busy).job):
        exports = [
            QueueExport(plan(each, to), to)
            for each in (stored, other)
            for to in [destination(each, out)]
        ]
        outcomes = {each.export.plan.log.queue: each for each in run_all(exports)}
    assert isinstance(outcomes["orders"].error, OutputError)
    assert outcomes["other"].report is not None


def test_progress_is_in_bytes_and_ends_at_all_of_them(stored: StoredQueue, out: Path) -> None:
    from appendlog.spark.exporting.export import run_export

    stored.append(plain_messages(300), step=10)
    to = destination(stored, out)
    planned = plan(stored, to)
    told: list[tuple[int, int]] = []
    run_export(
        LocalRunner(),
        [QueueExport(planned, to)],
        PARQUET,
        lambda done, total: told.append((done, total)),
        lambda outcome: None,
    )
    assert told[-1] == (planned.size_bytes, planned.size_bytes)
    assert told == sorted(told)
    assert len(told) > len(planned.pieces)


def test_a_log_that_is_being_written_is_exported_up_to_its_durable_end(
    stored: StoredQueue, out: Path
) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            number = 0
            # A pace: the disk could make more segments than this test can look at.
            while not stop.wait(0.005):
                stored.append(plain_messages(20, number), sync=number % 3 != 0, step=10)
                number += 20
        except BaseException as error:
            failures.append(error)
            raise

    writer = threading.Thread(target=write)
    writer.start()
    reports: list[Any] = []
    try:
        while len(reports) < 3:
            report = export(stored, out)
            if report is not None:
                reports.append(report)
            offsets = [row["offset"] for row in written_rows(out)]
            assert offsets == list(range(len(offsets)))
    finally:
        stop.set()
        writer.join()
    assert failures == []
    stored.log.append(Append([], stored.log.log_end_offset, sync=True))
    export(stored, out)
    assert written_rows(out) == expected_rows(stored.location)
