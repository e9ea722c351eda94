"""What an export is to read: which offsets, in which pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from appendlog.spark.errors import DataLossError, OutputError, RangeError
from appendlog.spark.exporting import export_plan
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import ExportJob
from appendlog.spark.exporting.export_plan import ExportRequest, QueuePlan, in_tasks, plan_queue
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.planning.bounds import LATEST, Bound
from appendlog.spark.planning.ranges import Range, join_ranges
from appendlog.spark.planning.settlement import Include
from offsets import CheckpointStore, QueueCheckpoint
from tests.spark.builders import START_NS, StoredQueue, plain_messages, store_queue
from tests.spark.local_exports import request

SINCE_LAST = ExportRequest(is_since_last=True)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path, segment_bytes=4096)
    queue.append(plain_messages(300), step=10)
    yield queue
    queue.close()


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 500)


class HalfDone(FilesDestination):
    """An output that has some offsets."""

    def __init__(self, stored: StoredQueue, covered: Sequence[Range]) -> None:
        super().__init__(LocalStore(stored.storage_path / "out"), stored.location)
        self._covered = list(covered)

    def covered(self) -> list[Range]:
        return self._covered


def plan(
    stored: StoredQueue, wanted: ExportRequest | None = None, covered: Sequence[Range] = ()
) -> QueuePlan:
    wanted = wanted or ExportRequest()
    return plan_queue(stored.storage_path, stored.location, HalfDone(stored, covered), wanted)


def offsets(found: QueuePlan) -> set[int]:
    """Return what is to be read; each offset once, and no piece over a cut."""
    seen: set[int] = set()
    for piece in found.pieces:
        assert piece.part.start <= piece.splits[0].start_offset
        assert piece.splits[-1].end_offset <= piece.part.end
        for split in piece.splits:
            part = set(range(split.start_offset, split.end_offset))
            assert not seen & part
            seen |= part
    return seen


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize("cores", [1, 3, 16])
def test_pieces_tile_what_is_asked_for(stored: StoredQueue, cores: int) -> None:
    (found,) = in_tasks([plan(stored, request(7, 290))], cores)
    assert offsets(found) == set(range(7, 290))
    assert len(found.pieces) >= cores
    assert len(found.pieces) <= cores * export_plan.TASKS_PER_CORE * 2
    assert found.size_bytes == plan(stored, request(7, 290)).size_bytes


@pytest.mark.usefixtures("small_splits")
def test_splits_that_meet_in_a_segment_are_one(stored: StoredQueue) -> None:
    (found,) = in_tasks([plan(stored)], 1)
    for piece in found.pieces:
        segments = [split.segment_base_offset for split in piece.splits]
        assert len(segments) == len(set(segments))


def test_small_logs_are_cut_for_all_cores_and_large_ones_into_large_tasks(
    stored: StoredQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 100)
    whole = plan(stored)
    assert len(in_tasks([whole], 2)[0].pieces) >= 8
    monkeypatch.setattr(export_plan, "TASK_BYTES_MAX", 2500)
    for piece in in_tasks([whole], 2)[0].pieces:
        assert piece.size_bytes <= 2500


def test_of_many_queues_the_sizes_of_all_count(stored: StoredQueue, tmp_path: Path) -> None:
    other = store_queue(tmp_path / "two", "other")
    other.append(plain_messages(10))
    other.close()
    plans = in_tasks([plan(stored), plan(other)], 1)
    assert [offsets(each) for each in plans] == [set(range(300)), set(range(10))]
    assert len(plans[1].pieces) == 1


def test_everything_is_planned_by_default(stored: StoredQueue) -> None:
    found = plan(stored)
    assert offsets(found) == set(range(300))
    assert found.offset_count == 300
    assert (found.job.start, found.job.end, found.job.ranges) == (0, 300, ((0, 300),))
    assert found.size_bytes >= sum(path.stat().st_size for path in stored.segments()) * 0.8


def test_what_the_output_has_is_left_out(stored: StoredQueue) -> None:
    found = plan(stored, covered=[(0, 50), (100, 200)])
    assert offsets(found) == {*range(50, 100), *range(200, 300)}
    assert found.job.ranges == ((50, 100), (200, 300))
    assert found.job.covered == ((0, 50), (100, 200))
    for piece in in_tasks([found], 1)[0].pieces:
        spans = piece.splits[0].start_offset, piece.splits[-1].end_offset
        assert spans in {(50, 100), (200, 300)}, "a file never spans what is there"


def test_since_last_begins_where_the_output_ends_and_fills_no_hole(stored: StoredQueue) -> None:
    assert offsets(plan(stored, SINCE_LAST, [(0, 50), (100, 200)])) == set(range(200, 300))
    assert offsets(plan(stored, SINCE_LAST)) == set(range(300))
    assert plan(stored, SINCE_LAST, [(0, 300)]).is_empty


def test_times_stand_for_the_first_message_appended_then(stored: StoredQueue) -> None:
    # A chunk of ten has one time: that of its first message, 1000123 ns a message.
    since = Bound.at_time(START_NS + 100 * 1_000_123)
    until = Bound.at_time(START_NS + 200 * 1_000_123 + 1)
    assert offsets(plan(stored, ExportRequest(since=since, until=until))) == set(range(100, 210))
    assert plan(stored, ExportRequest(since=Bound.at_time(START_NS * 2))).is_empty
    late = ExportRequest(until=Bound.at_time(START_NS * 2))
    assert offsets(plan(stored, late)) == set(range(300))


def test_nothing_is_planned_when_the_output_has_it_all(stored: StoredQueue) -> None:
    assert plan(stored, covered=[(0, 300)]).is_empty
    assert plan(stored, request(10, 20), [(0, 300)]).is_empty
    assert plan(stored, request(since=300)).is_empty
    assert plan(stored, request(since=10_000)).is_empty
    assert plan(stored, ExportRequest(since=LATEST)).is_empty


def test_a_log_without_a_message_has_nothing(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    assert plan(queue).is_empty
    assert plan(queue, ExportRequest(partition_by=PartitionBy.DAY)).is_empty
    queue.close()


def test_what_is_not_synced_is_not_planned(stored: StoredQueue) -> None:
    stored.append(plain_messages(20), sync=False)
    found = plan(stored)
    assert stored.log.log_end_offset == 320
    assert (found.durable_end, offsets(found)) == (300, set(range(300)))


@pytest.mark.parametrize(("since", "until"), [(None, 301), (200, 100), (None, 10_000)])
def test_a_range_that_is_none_is_refused(
    stored: StoredQueue, since: int | None, until: int
) -> None:
    with pytest.raises(RangeError):
        plan(stored, request(since, until))


def removed_start(stored: StoredQueue) -> int:
    stored.log.remove_settled(150)
    start = stored.log.log_start_offset
    assert 0 < start < 200
    return start


def test_the_default_begins_where_the_log_begins(stored: StoredQueue) -> None:
    start = removed_start(stored)
    assert offsets(plan(stored)) == set(range(start, 300))


@pytest.mark.parametrize("wanted", [ExportRequest(), SINCE_LAST])
def test_what_retention_took_between_two_exports_is_data_loss(
    stored: StoredQueue, wanted: ExportRequest
) -> None:
    start = removed_start(stored)
    with pytest.raises(DataLossError) as caught:
        plan(stored, wanted, [(0, 10)])
    assert (caught.value.start, caught.value.end) == (10, start)
    assert f"--since {start}" in str(caught.value)
    assert "--allow-data-loss" in str(caught.value)


def test_loss_that_is_allowed_is_part_of_the_job_and_not_read(stored: StoredQueue) -> None:
    start = removed_start(stored)
    found = plan(stored, ExportRequest(allows_loss=True), [(0, 10)])
    assert found.lost == ((10, start),)
    assert found.job.ranges == ((10, 300),)
    assert offsets(found) == set(range(start, 300))


def test_what_is_gone_but_exported_is_no_loss(stored: StoredQueue) -> None:
    removed_start(stored)
    assert offsets(plan(stored, covered=[(0, 250)])) == set(range(250, 300))


def test_a_start_that_is_gone_is_data_loss_when_asked_for(stored: StoredQueue) -> None:
    start = removed_start(stored)
    with pytest.raises(DataLossError):
        plan(stored, request(since=0))
    assert offsets(plan(stored, request(since=start))) == set(range(start, 300))


def test_an_output_that_is_ahead_of_the_log_is_refused(stored: StoredQueue) -> None:
    with pytest.raises(OutputError, match="durable end 300"):
        plan(stored, covered=[(0, 301)])


HOUR_NS = 3600 * 10**9
HOURS = [0, 0, 1, 1, 1, 30, 30, 72]


@pytest.fixture
def hourly(tmp_path: Path) -> Iterator[StoredQueue]:
    """Yield a log of chunks of five messages, at these hours from 2023-11-14 22:00 on."""
    queue = store_queue(tmp_path, segment_bytes=1024)
    start_ns = START_NS // HOUR_NS * HOUR_NS
    for hour in HOURS:
        queue.append_at(plain_messages(5), start_ns + hour * HOUR_NS + 7)
    yield queue
    queue.close()


def folders(found: QueuePlan) -> dict[str, list[Range]]:
    grouped: dict[str, list[Range]] = {}
    for piece in found.pieces:
        spans = [(split.start_offset, split.end_offset) for split in piece.splits]
        grouped[piece.part.folder] = join_ranges([*grouped.get(piece.part.folder, []), *spans])
    return grouped


def test_a_day_is_a_range_of_offsets_and_a_folder(hourly: StoredQueue) -> None:
    found = plan(hourly, ExportRequest(partition_by=PartitionBy.DAY))
    assert folders(in_tasks([found], 1)[0]) == {
        "date=2023-11-14/": [(0, 25)],
        "date=2023-11-16/": [(25, 35)],
        "date=2023-11-17/": [(35, 40)],
    }


def test_an_hour_is_a_folder_in_that_of_its_day(hourly: StoredQueue) -> None:
    found = plan(hourly, replace(request(3, 33), partition_by=PartitionBy.HOUR))
    assert folders(in_tasks([found], 1)[0]) == {
        "date=2023-11-14/hour=22/": [(3, 10)],
        "date=2023-11-14/hour=23/": [(10, 25)],
        "date=2023-11-16/hour=04/": [(25, 33)],
    }


def test_gaps_go_with_what_is_in_front_of_them(hourly: StoredQueue) -> None:
    hourly.skip(1000)
    hourly.append_at(plain_messages(5), START_NS + 100 * HOUR_NS)
    found = plan(hourly, replace(request(25), partition_by=PartitionBy.DAY))
    assert folders(found) == {
        "date=2023-11-16/": [(25, 35)],
        "date=2023-11-17/": [(35, 1040)],
        "date=2023-11-19/": [(1040, 1045)],
    }
    nothing = plan(hourly, replace(request(100, 500), partition_by=PartitionBy.DAY))
    assert folders(nothing) == {"": [(100, 500)]}


def settle(stored: StoredQueue, floor: int, ranges: list[Range]) -> None:
    directory = stored.storage_path / "offsets"
    store, _, _ = CheckpointStore.open(directory, FileSystem())
    store.write_round([QueueCheckpoint(stored.location.incarnation, floor, ranges)])
    store.close()


@pytest.mark.usefixtures("small_splits")
def test_only_splits_with_messages_that_are_asked_for_are_read(stored: StoredQueue) -> None:
    settle(stored, 100, [(150, 151), (280, 290)])
    acked = plan(stored, ExportRequest(include=Include.ACKED))
    assert acked.job.ranges == ((0, 290),), "what is behind may be acked later"
    assert set(range(100)) | {150} | set(range(280, 290)) <= offsets(acked)
    assert len(offsets(acked)) < 180
    unacked = plan(stored, ExportRequest(include=Include.UNACKED))
    assert unacked.job.ranges == ((100, 300),)
    assert unacked.job.include == "unacked"
    assert unacked.settled is not None
    assert unacked.settled.generation == 1


def test_nothing_acked_is_nothing_new_and_covers_nothing(stored: StoredQueue) -> None:
    wanted = ExportRequest(include=Include.ACKED)
    assert plan(stored, wanted).is_empty
    settle(stored, 100, [])
    assert plan(stored, wanted).job.ranges == ((0, 100),)
    assert plan(stored, wanted, [(0, 100)]).is_empty
    settle(stored, 120, [])
    assert plan(stored, wanted, [(0, 100)]).job.ranges == ((100, 120),)


def test_a_job_has_a_name_of_its_own(stored: StoredQueue) -> None:
    jobs: list[ExportJob] = [plan(stored).job for _ in range(2)]
    assert jobs[0].job_id != jobs[1].job_id
