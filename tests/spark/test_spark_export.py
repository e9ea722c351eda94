"""The export with Spark as its runner, and what Spark reads of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from appendlog.spark.errors import SparkFailedError
from appendlog.spark.exporting import export_plan
from appendlog.spark.exporting.export import QueueExport, QueueOutcome, run_export
from appendlog.spark.exporting.export_plan import ExportRequest
from appendlog.spark.exporting.files.file_task import FileTask
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.partition_fields import PartitionField
from appendlog.spark.exporting.spark_runner import SparkRunner
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.schema.columns import EXPORT_ROWS
from tests.spark.builders import StoredQueue, all_kinds_of_messages, plain_messages, store_queue
from tests.spark.local_exports import PARQUET, destination, plan
from tests.spark.plain_reader import Row, expected_rows

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
    spark: SparkSession, stored: StoredQueue, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 4000)
    stored.append(all_kinds_of_messages(), step=7)
    stored.append(plain_messages(500), step=25)
    to = destination(stored, out)
    planned = plan(stored, to, ExportRequest(partition_by=PartitionBy.DAY))
    told: list[tuple[int, int]] = []
    outcomes: list[QueueOutcome] = []
    run_export(
        SparkRunner(spark.sparkContext),
        [QueueExport(planned, to)],
        PARQUET,
        lambda done, total: told.append((done, total)),
        outcomes.append,
    )
    frame = spark.read.parquet(str(out))
    expected = expected_rows(stored.location)
    assert spark_rows(frame) == expected
    rows = frame.drop("queue", "date")
    assert rows.schema == spark.createDataFrame([], EXPORT_ROWS.ddl).schema
    places = [
        (row.queue, str(row.date)) for row in frame.select("queue", "date").distinct().collect()
    ]
    assert places == [("orders", "2023-11-14")]
    (outcome,) = outcomes
    assert outcome.report is not None
    assert (outcome.report.rows, outcome.report.files) == (len(expected), len(planned.pieces))
    assert told[0] == (0, planned.size_bytes)
    assert told[-1] == (planned.size_bytes, planned.size_bytes)
    assert told == sorted(told)


def test_spark_makes_a_column_of_a_field(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(all_kinds_of_messages(), step=7)
    to = destination(stored, out)
    fields = (PartitionField.parse("kind=header:text"), PartitionField.parse("header:no"))
    run_export(
        SparkRunner(spark.sparkContext),
        [QueueExport(plan(stored, to), to)],
        replace(PARQUET, fields=fields),
        lambda *_: None,
        lambda outcome: None,
    )
    frame = spark.read.parquet(str(out))
    expected = expected_rows(stored.location)
    assert spark_rows(frame) == expected
    column = {row["offset"]: row["kind"] for row in frame.select("offset", "kind").collect()}
    assert column == {row["offset"]: (row["headers"] or {}).get("text") for row in expected}
    assert len(set(column.values())) > 1
    assert frame.where("kind = 'été'").count() == list(column.values()).count("été") > 0


def test_a_task_that_fails_says_why_in_one_line(
    spark: SparkSession, stored: StoredQueue, out: Path
) -> None:
    stored.append(plain_messages(3))
    (piece,) = plan(stored, destination(stored, out)).pieces
    out.write_text("a file, and no directory")
    task = FileTask(stored.location, piece.splits, LocalStore(out), "job", ParquetFormat())
    with pytest.raises(SparkFailedError) as caught:
        SparkRunner(spark.sparkContext).run([task], lambda _: None)
    assert "Not a directory" in str(caught.value)
    assert "\n" not in str(caught.value)
