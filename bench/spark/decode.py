"""The decoder alone, from the log's files to Arrow batches, in CPU time, without Spark."""

import resource
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
from bench.options import data_dir_option
from bench.spark.both_builds import is_interpreted, run_in_both_builds, storage_path_of_child
from bench.spark.made_queue import QUEUE, VHOST, make_queue

PROJECTIONS = {"all columns": ROWS, "offset": ROWS.only(["offset"]), "value": ROWS.only(["value"])}


@click.command()
@click.option("--messages", type=click.IntRange(1), default=500_000, help="Messages of the log.")
@click.option("--rounds", type=click.IntRange(1), default=3, help="Rounds; medians are shown.")
@data_dir_option("the log")
def benchmark(messages: int, rounds: int, data_dir: Path) -> None:
    """Measure records for each second of one core, compiled and interpreted."""
    if storage_path := storage_path_of_child():
        _show(storage_path, rounds)
        return
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        make_queue(Path(name), messages)
        run_in_both_builds(Path(name), "decode", "--rounds", str(rounds))


def _show(storage_path: Path, rounds: int) -> None:
    click.echo("interpreted:" if is_interpreted() else "compiled:")
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
