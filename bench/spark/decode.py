"""The decoder alone: from the log's files to Arrow batches, by processor time, no Spark."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click

from appendlog import LogReader
from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.planning.queues import find_queue
from appendlog.spark.schema.columns import ROWS
from appendlog.split_reader import SplitReader
from bench.spark.made_queue import QUEUE, VHOST, make_queue

CHILD = "BENCH_DECODE_STORAGE_PATH"
PROJECTIONS = {"all columns": ROWS, "offset": ROWS.only(["offset"]), "value": ROWS.only(["value"])}


@click.command()
@click.option("--messages", type=click.IntRange(1), default=500_000)
@click.option("--rounds", type=click.IntRange(1), default=3, help="Medians of so many.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Where the log is made.",
)
def benchmark(messages: int, rounds: int, data_dir: Path) -> None:
    """Records for each second of one core, with typical properties, compiled and interpreted."""
    if storage_path := os.environ.get(CHILD):
        _show(Path(storage_path), rounds)
        return
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        make_queue(Path(name), messages)
        for is_pure in ("0", "1"):
            environment = os.environ | {CHILD: name, "AMQP_SERVER_PURE_PYTHON": is_pure}
            command = [sys.executable, "-m", "bench.spark", "decode", "--rounds", str(rounds)]
            click.echo("interpreted:" if is_pure == "1" else "compiled:")
            subprocess.run(command, env=environment, check=True)


def _show(storage_path: Path, rounds: int) -> None:
    log = find_queue(storage_path, VHOST, QUEUE)
    with LogReader(log.directory) as reader:
        splits = reader.plan_splits()
        count = reader.log_end_offset
    size_bytes = sum(path.stat().st_size for path in log.directory.glob("*.log"))
    click.echo(f"  {count:,} records of {size_bytes / count:.0f} bytes")
    for name, schema in PROJECTIONS.items():
        seconds: list[float] = []
        for _ in range(rounds):
            start = time.process_time()
            reading = SplitReader(log.directory)
            rows = sum(
                batch.rows.num_rows
                for split in splits
                for batch in log_batches(reading, log, split, schema)
            )
            seconds.append(time.process_time() - start)
            reading.close()
            assert rows == count, f"LOST {count - rows}"
        click.echo(f"  {name:14}{count / median(seconds) / 1e6:8.2f} M records/s   LOST 0")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(f"  peak memory of the process {peak_mib:.0f} MiB")
