"""Spark reads the logs of a program that embeds them, while it writes, as it reads a server's."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from appendlog import EmbeddedOptions
from appendlog.spark.exporting.export import run_export
from appendlog.spark.exporting.export_plan import plan_export
from appendlog.spark.exporting.output import OutputDirectory
from appendlog.spark.planning.queues import find_queue
from offsets import LogRoot

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
        plan = plan_export(place, OutputDirectory(out, place).covered(), None, None, 4_000)
        output = OutputDirectory(out, place)
        report = run_export(spark.sparkContext, output, plan, lambda done, total: None)
    assert (report.rows, report.missing, report.undecodable) == (200, 0, 0)
    rows = spark.read.parquet(str(out)).orderBy("offset").collect()
    assert [bytes(row["value"]) for row in rows] == [b"%d" % number for number in range(200)]
    assert [row["headers"] for row in rows] == [{"n": str(number)} for number in range(200)]
    assert {(row["key"], row["delivery_mode"]) for row in rows} == {("key", 2)}
