"""Spark reads the logs of a program that embeds them, while it writes, as it reads a server's."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from appendlog import EmbeddedOptions
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export import QueueExport, QueueOutcome, run_export
from appendlog.spark.exporting.export_plan import ExportRequest, plan_queue
from appendlog.spark.exporting.spark_runner import SparkRunner
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.queues import find_queue
from offsets import LogRoot
from tests.spark.local_exports import PARQUET

pytestmark = pytest.mark.spark


def test_an_embedded_log_is_exported_row_for_row(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = replace(EmbeddedOptions(), segment_bytes=4_000, batch_bytes=1_000)
    with LogRoot.open(tmp_path / "root", options) as root:
        for number in range(200):
            root.append("events-0000", b"%d" % number, b"key", {"n": number})
        root.sync()
        root.append("events-0000", b"not on the disk yet")
        place = find_queue(tmp_path / "root", "/", "events-0000")
        output = FilesDestination(LocalStore(out), place)
        plan = plan_queue(tmp_path / "root", place, output, ExportRequest())
        outcomes: list[QueueOutcome] = []
        runner = SparkRunner(spark.sparkContext)
        exports = [QueueExport(plan, output)]
        run_export(runner, exports, PARQUET, lambda *_: None, outcomes.append)
    report = outcomes[0].report
    assert report is not None
    assert (report.rows, report.missing, report.undecodable) == (200, 0, 0)
    rows = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [bytes(row["value"]) for row in rows] == [b"%d" % number for number in range(200)]
    assert [row["headers"] for row in rows] == [{"n": str(number)} for number in range(200)]
    assert {(row["key"], row["delivery_mode"]) for row in rows} == {("key", 2)}
