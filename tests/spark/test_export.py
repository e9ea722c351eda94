import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from appendlog.spark.errors import (
    CorruptLogError,
    DataLossError,
    OutputError,
    SparkFailedError,
)
from appendlog.spark.exporting import export as export_module
from appendlog.spark.exporting.export import ExportReport, run_export
from appendlog.spark.exporting.export_plan import ExportPlan, plan_export
from appendlog.spark.exporting.output import OutputDirectory
from appendlog.spark.exporting.part_writer import PartTask
from appendlog.spark.schema.columns import EXPORT_ROWS
from tests.spark.builders import StoredQueue, all_kinds_of_messages, plain_messages, store_queue
from tests.spark.plain_reader import Row, expected_rows, written_rows

pytestmark = pytest.mark.spark

TIMESTAMPS = ("timestamp", "message_timestamp")


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=8192)
    yield queue
    queue.close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def export(
    spark: SparkSession,
    stored: StoredQueue,
    out: Path,
    since: int | None = None,
    until: int | None = None,
    part_bytes: int = 4000,
) -> tuple[ExportPlan, ExportReport | None]:
    output = OutputDirectory(out, stored.location)
    plan = plan_export(stored.location, output.covered(), since, until, part_bytes)
    progress: list[tuple[int, int]] = []
    if not plan.splits:
        return plan, None
    report = run_export(
        spark.sparkContext, output, plan, lambda done, total: progress.append((done, total))
    )
    assert progress[0] == (0, len(plan.splits))
    assert progress[-1] == (len(plan.splits), len(plan.splits))
    assert progress == sorted(progress)
    return plan, report


def spark_rows(frame: DataFrame) -> list[Row]:
    """Return the rows as the plain reader gives them, in the order of offsets."""
    columns = [
        f.unix_micros(column.name).alias(column.name) if column.name in TIMESTAMPS else column.name
        for column in EXPORT_ROWS.columns
    ]
    rows = [row.asDict() for row in frame.select(*columns).collect()]
    for row in rows:
        row["value"], row["envelope"] = bytes(row["value"]), bytes(row["envelope"])
    return sorted(rows, key=lambda row: int(row["offset"]))


def test_spark_reads_row_for_row_what_a_plain_reader_finds(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(all_kinds_of_messages(), step=7)
    stored.append(plain_messages(500), step=25)
    plan, report = export(spark, stored, out)
    frame = spark.read.parquet(str(out))
    expected = expected_rows(stored.location)
    assert spark_rows(frame) == expected
    assert (
        frame.drop("queue").schema == frame.sparkSession.createDataFrame([], EXPORT_ROWS.ddl).schema
    )
    assert {row.queue for row in frame.select("queue").distinct().collect()} == {"orders"}
    assert len(stored.segments()) > 3
    assert report is not None
    assert (report.rows, report.files) == (len(expected), len(plan.splits))
    assert (report.missing, report.undecodable) == (0, 0)


def test_running_it_again_adds_what_is_new_and_nothing_twice(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(200), step=10)
    assert export(spark, stored, out)[1] is not None
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    assert export(spark, stored, out)[1] is None
    stored.append(plain_messages(100), step=10)
    _, report = export(spark, stored, out)
    assert report is not None
    assert report.rows == 100
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert spark_rows(spark.read.parquet(str(out))) == expected_rows(stored.location)


def test_ranges_that_overlap_write_each_offset_once(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)
    for since, until in [(50, 120), (100, 207), (0, 60), (33, 300)]:
        assert export(spark, stored, out, since, until)[1] is not None
    assert written_rows(out) == expected_rows(stored.location)


def test_a_range_is_exactly_that_range(spark: SparkSession, stored: StoredQueue, out: Path) -> None:
    stored.append(plain_messages(300), step=10)
    export(spark, stored, out, 41, 259)
    assert written_rows(out) == expected_rows(stored.location, 41, 259)


def test_an_unsynced_tail_is_exported_when_it_is_synced(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(60), step=10)
    stored.append(plain_messages(60), sync=False, step=10)
    export(spark, stored, out)
    assert [row["offset"] for row in written_rows(out)] == list(range(60))
    stored.log.append([], stored.log.log_end_offset, sync=True)
    export(spark, stored, out)
    assert [row["offset"] for row in written_rows(out)] == list(range(120))


def test_a_torn_tail_behind_the_durable_end_is_ignored(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(60), step=10)
    with stored.segments()[-1].open("ab") as file:
        file.write(b"AQLC half a chunk")
    export(spark, stored, out)
    assert written_rows(out) == expected_rows(stored.location, 0, 60)


def test_damage_stops_the_export_and_leaves_the_output_as_it_was(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)
    export(spark, stored, out, until=20)
    path = stored.segments()[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=path.name) as caught:
        export(spark, stored, out)
    assert "position" in str(caught.value)
    assert "offset" in str(caught.value)
    assert written_rows(out) == expected_rows(stored.location, 0, 20)
    assert not list(out.rglob("job-*"))


def test_a_segment_that_vanishes_after_planning_is_data_loss(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(300), step=10)
    plan = plan_export(stored.location, [], part_bytes=4000)
    stored.log.remove_settled(150)
    with pytest.raises(DataLossError):
        run_export(spark.sparkContext, OutputDirectory(out, stored.location), plan, lambda *_: None)
    assert not list(out.rglob("*.parquet"))


def test_an_output_that_changed_since_the_planning_is_refused(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(100), step=10)
    plan = plan_export(stored.location, [])
    export(spark, stored, out, until=10)
    with pytest.raises(OutputError, match="run it again"):
        run_export(spark.sparkContext, OutputDirectory(out, stored.location), plan, lambda *_: None)


def test_a_task_that_fails_says_why_in_one_line(
    spark: SparkSession, stored: StoredQueue, tmp_path: Path
) -> None:
    stored.append(plain_messages(3))
    (split,) = plan_export(stored.location, []).splits
    task = PartTask(stored.location, split, tmp_path / "nowhere")
    with pytest.raises(SparkFailedError) as caught:
        export_module._run(spark.sparkContext, [task], lambda *_: None)
    assert "FileNotFoundError" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_log_that_is_being_written_is_exported_up_to_its_durable_end(
    spark: SparkSession, stored: StoredQueue, out: Path
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
            _, report = export(spark, stored, out, part_bytes=1 << 20)
            if report is not None:
                reports.append(report)
            offsets = [row["offset"] for row in written_rows(out)]
            assert offsets == list(range(len(offsets)))
    finally:
        stop.set()
        writer.join()
    assert failures == []
    stored.log.append([], stored.log.log_end_offset, sync=True)
    export(spark, stored, out, part_bytes=1 << 20)
    assert written_rows(out) == expected_rows(stored.location)
