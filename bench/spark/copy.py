"""The export and the data source beside Spark's own copy of the same rows, Parquet to Parquet.

All ways run in one Spark session, in turns, so only the ratios count. A Python worker loads either
the compiled decoder or the interpreted one. Each decoder therefore has its own session and its own
copy beside it.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

import click
from pyspark.sql import DataFrame, SparkSession

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export import FileSettings, QueueExport, QueueOutcome, run_export
from appendlog.spark.exporting.export_plan import ExportRequest, in_tasks, plan_queue
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.spark_runner import SparkRunner
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.queues import QueueLog, find_queue
from appendlog.spark.running.session import spark_session
from bench.options import data_dir_option
from bench.spark.both_builds import is_interpreted, run_in_both_builds, storage_path_of_child
from bench.spark.made_queue import QUEUE, VHOST, make_queue

COPY: Final = "Spark, Parquet to Parquet"
READ: Final = "Spark, Parquet to noop"
FUSED: Final = "amqp-server export"
SOURCE: Final = "format('amqplog') to Parquet"
SOURCE_READ: Final = "format('amqplog') to noop"
BARS: Final = {
    False: {FUSED: 2.5, SOURCE: 0.85, SOURCE_READ: 1.0},
    True: {SOURCE: 0.3},
}
"""Bars for the ratios, by whether the decoder is interpreted."""
WORKER_BYTES_MAX: Final = 300 * 10**6
"""Limit of a worker's memory; four times the largest message come on top, little here."""
BESIDE: Final = {FUSED: COPY, SOURCE: COPY, SOURCE_READ: READ}


@click.command()
@click.option("--messages", type=click.IntRange(1), default=1_000_000, help="Messages of the log.")
@click.option(
    "--rounds", type=click.IntRange(1), default=3, help="Rounds after a warm-up; medians are shown."
)
@click.option("--master", default="local[2]", help="Spark master.")
@click.option("--codec", default="zstd", help="Compression of Spark's copies; exports use zstd.")
@data_dir_option("the log and the copies")
def benchmark(messages: int, rounds: int, master: str, codec: str, data_dir: Path) -> None:
    """Measure rows a second, and the ratio to Spark's own copy of the same rows."""
    if storage_path := storage_path_of_child():
        _measure(storage_path, rounds, master, codec)
        return
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        storage_path = Path(name) / "data"
        make_queue(storage_path, messages)
        options = ["--rounds", str(rounds), "--master", master, "--codec", codec]
        run_in_both_builds(storage_path, "copy", *options)


def _measure(storage_path: Path, rounds: int, master: str, codec: str) -> None:
    work = storage_path.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    is_pure = is_interpreted()
    with spark_session(master, work / "spark.log") as spark:
        spark.conf.set("spark.sql.parquet.compression.codec", codec)
        spark.sparkContext._jsc.hadoopConfiguration().set(
            "parquet.compression.codec.zstd.level", "1"
        )
        ways = _ways(spark, storage_path, work)
        wanted = {name: ways[name] for name in (COPY, READ, *BARS[is_pure])}
        seconds: dict[str, list[float]] = {name: [] for name in wanted}
        for _ in range(1 + rounds):
            for name, way in wanted.items():
                start = time.perf_counter()
                way()
                seconds[name].append(time.perf_counter() - start)
        count = spark.read.parquet(str(work / "source")).count()
        worker_mib = _worker_peak_bytes() / 2**20
    show(is_pure, count, {name: median(times[1:]) for name, times in seconds.items()})
    bound_mib = WORKER_BYTES_MAX / 2**20
    click.echo(f"  the largest Python worker had {worker_mib:.0f} MiB (at most {bound_mib:.0f})")


def _ways(spark: SparkSession, storage_path: Path, work: Path) -> dict[str, Callable[[], object]]:
    """Return the measured ways by name; each reads the same rows."""
    log = find_queue(storage_path, VHOST, QUEUE)

    def source() -> DataFrame:
        reader = spark.read.format("amqplog")
        return reader.option("path", str(storage_path)).option("subscribe", QUEUE).load()

    def parquet() -> DataFrame:
        return spark.read.parquet(str(work / "source"))

    def write(frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(work / "copy"))
        shutil.rmtree(work / "copy")

    source().write.parquet(str(work / "source"))
    return {
        COPY: lambda: write(parquet()),
        READ: lambda: parquet().write.format("noop").mode("overwrite").save(),
        FUSED: lambda: _export(spark, storage_path, log, work / "export"),
        SOURCE: lambda: write(source()),
        SOURCE_READ: lambda: source().write.format("noop").mode("overwrite").save(),
    }


def _export(spark: SparkSession, storage_path: Path, log: QueueLog, out: Path) -> None:
    """Plan, write and commit, as the command does in a running Spark session."""
    out.mkdir()
    destination = FilesDestination(LocalStore(out), log)
    planned = plan_queue(storage_path, log, destination, ExportRequest())
    (plan,) = in_tasks([planned], spark.sparkContext.defaultParallelism)
    outcomes: list[QueueOutcome] = []
    run_export(
        SparkRunner(spark.sparkContext),
        [QueueExport(plan, destination)],
        FileSettings(ParquetFormat()),
        lambda done, total: None,
        outcomes.append,
    )
    report = outcomes[0].report
    assert report is not None, outcomes
    assert report.rows == plan.offset_count, f"LOST {plan.offset_count - report.rows}"
    shutil.rmtree(out)


def _worker_peak_bytes() -> int:
    """Return the peak memory of the largest of Spark's Python workers; 0 if unknown."""
    peaks = [0]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text()
                peaks += [
                    int(line.split()[1]) << 10 for line in status.splitlines() if "VmHWM" in line
                ]
    return max(peaks)


def show(is_pure: bool, count: int, seconds: dict[str, float]) -> None:
    """Print a line for each way, with its ratio to the way beside it."""
    click.echo("interpreted:" if is_pure else "compiled:")
    for name, time_seconds in seconds.items():
        rate = f"  {name:30}{count / time_seconds / 1e3:8,.0f} k rows/s"
        if (beside := BESIDE.get(name)) is None:
            click.echo(rate)
            continue
        ratio, bar = seconds[beside] / time_seconds, BARS[is_pure][name]
        verdict = "reached" if ratio >= bar else "missed"
        click.echo(f"{rate}   {ratio:5.2f} x {beside} (at least {bar}: {verdict})")
