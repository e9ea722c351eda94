"""A log whose times step back: what Spark reads by time is all that was appended then."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql.datasource import GreaterThanOrEqual, LessThan

from appendlog.reader import LogReader
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export_plan import ExportRequest, plan_queue
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.time_partitions import FolderRange, PartitionBy, cut_by_time
from appendlog.spark.planning.bounds import EARLIEST, LATEST, Bound, IfNoneLater, resolve_range
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.source_reading import batches_of
from tests.spark.test_source_filters import TIMESTAMP, pushing_reader

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
YEAR = timedelta(days=365)
TIMES = [
    NOON - HOUR,
    NOON,
    NOON + YEAR,  # the clock was wrong for a moment
    NOON + YEAR,
    NOON,
    NOON + HOUR,
    NOON - HOUR,  # it was set back by two hours
    NOON,
]
"""When each ten messages were appended."""


def ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 10**9


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path)
    for number, moment in enumerate(TIMES):
        queue.append_at(plain_messages(10 * number + 10)[10 * number :], ns(moment))
    assert [segment.base_offset for segment in queue.log.segments] == [0, 40, 60]
    yield queue
    queue.close()


@pytest.fixture
def reader(stored: StoredQueue) -> Iterator[LogReader]:
    with LogReader(stored.location.directory) as found:
        yield found


def resolved(reader: LogReader, starting: Bound, ending: Bound) -> tuple[int, int]:
    found = resolve_range(reader, "q", starting, ending, IfNoneLater.LATEST)
    return found.start_offset, found.end_offset


def test_a_range_between_two_times_has_all_that_was_appended_between_them(
    reader: LogReader,
) -> None:
    def at(moment: datetime) -> Bound:
        return Bound.at_time(ns(moment))

    assert resolved(reader, at(NOON), LATEST) == (10, 80)
    assert resolved(reader, at(NOON + HOUR), LATEST) == (20, 80)
    assert resolved(reader, at(NOON + 2 * YEAR), LATEST) == (80, 80)
    assert resolved(reader, EARLIEST, at(NOON - HOUR)) == (0, 0)
    assert resolved(reader, EARLIEST, at(NOON)) == (0, 70)
    assert resolved(reader, at(NOON + HOUR), at(NOON + 2 * HOUR)) == (20, 80)
    assert resolved(reader, at(NOON + YEAR), at(NOON + 2 * YEAR)) == (20, 80)


def test_an_export_up_to_a_time_has_all_that_was_appended_before_it(stored: StoredQueue) -> None:
    since, until = (Bound.at_time(ns(moment)) for moment in (NOON - HOUR, NOON))
    wanted = ExportRequest(since=since, until=until)
    destination = FilesDestination(LocalStore(stored.storage_path / "out"), stored.location)
    found = plan_queue(stored.storage_path, stored.location, destination, wanted)
    splits = [split for piece in found.pieces for split in piece.splits]
    assert (splits[0].start_offset, splits[-1].end_offset) == (0, 70)


@pytest.mark.parametrize(
    ("low", "high"), [(NOON - HOUR, NOON), (NOON, NOON + HOUR), (NOON + HOUR, NOON + 2 * YEAR)]
)
def test_filters_by_time_leave_out_no_row(
    stored: StoredQueue, low: datetime, high: datetime
) -> None:
    pushing = pushing_reader(stored.storage_path, subscribe=stored.location.queue)
    list(pushing.pushFilters([GreaterThanOrEqual(TIMESTAMP, low), LessThan(TIMESTAMP, high)]))
    found = {
        offset for batch in batches_of(pushing) for offset in batch.column("offset").to_pylist()
    }
    wanted = {
        offset
        for number, moment in enumerate(TIMES)
        if low <= moment < high
        for offset in range(10 * number, 10 * number + 10)
    }
    assert wanted
    assert wanted <= found


def test_a_folder_has_the_messages_of_its_hour_and_neighbours_share_one(reader: LogReader) -> None:
    found = list(cut_by_time(reader, 5, 80, PartitionBy.HOUR))
    noon = "date=2026-11-21/hour=12/"
    assert found == [
        FolderRange("date=2026-11-21/hour=11/", 5, 10),
        FolderRange(noon, 10, 20),
        FolderRange("date=2027-11-21/hour=12/", 20, 40),
        FolderRange(noon, 40, 50),
        FolderRange("date=2026-11-21/hour=13/", 50, 60),
        FolderRange("date=2026-11-21/hour=11/", 60, 70),
        FolderRange(noon, 70, 80),
    ]
    assert list(cut_by_time(reader, 30, 50, PartitionBy.DAY)) == [
        FolderRange("date=2027-11-21/", 30, 40),
        FolderRange("date=2026-11-21/", 40, 50),
    ]
    assert list(cut_by_time(reader, 40, 80, PartitionBy.DAY)) == [
        FolderRange("date=2026-11-21/", 40, 80)
    ]
