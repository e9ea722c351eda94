"""A task that fails is tried again by Spark, and says what failed when that is of no use."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from appendlog.spark.errors import SparkFailedError
from appendlog.spark.exporting import export_plan
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export import QueueExport, run_export
from appendlog.spark.exporting.spark_runner import SparkRunner
from tests.spark.builders import plain_messages, store_queue
from tests.spark.failing_store import FailingStore
from tests.spark.local_exports import PARQUET, plan
from tests.spark.plain_reader import expected_rows, written_rows

pytestmark = pytest.mark.spark


def test_a_task_that_fails_once_recovers_and_one_that_always_fails_says_where(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 4000)
    stored = store_queue(tmp_path / "data", segment_bytes=8192)
    stored.append(plain_messages(300), step=10)
    stored.close()
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    store = FailingStore(out, marks, ".parquet")

    def run(failures: int) -> None:
        for number in range(failures):
            (marks / str(number)).touch()
        to = FilesDestination(store, stored.location)
        planned = plan(stored, to)
        assert len(planned.pieces) > 1
        runner = SparkRunner(spark.sparkContext)
        run_export(runner, [QueueExport(planned, to)], PARQUET, lambda *_: None, lambda _: None)

    with pytest.raises(SparkFailedError) as failed:
        run(failures=100)
    text = str(failed.value)
    assert "\n" not in text
    assert text.startswith("Spark failed: queue 'orders' of virtual host '/', segment 0000")
    assert "offsets [" in text
    assert "No space left on device" in text
    assert written_rows(out) == []
    for mark in marks.iterdir():
        mark.unlink()

    run(failures=1)
    assert list(marks.iterdir()) == []
    assert written_rows(out) == expected_rows(stored.location)
