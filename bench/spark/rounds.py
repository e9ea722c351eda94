"""Rounds of `amqp-server export --every`, each with the same number of new messages."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from appendlog import Log, LogIdentity, LogOptions
from appendlog.spark.planning.queues import find_queue
from bench.options import data_dir_option
from bench.spark.made_queue import QUEUE, VHOST, append_messages, make_queue
from cli.export import KINDS
from cli.units import DURATION, format_duration

_COLD_ROUNDS: Final = 1
"""Rounds with the start of Spark; not counted."""


@click.command()
@click.option("--messages", type=click.IntRange(1), default=1000, help="New messages of a round.")
@click.option("--rounds", type=click.IntRange(1), default=10, help="Rounds that are counted.")
@click.option(
    "--every",
    "every_seconds",
    type=DURATION,
    default="5s",
    help="Interval; Spark ends Python workers that were idle for a minute.",
)
@click.option("--to", "kind", type=click.Choice(KINDS), default="parquet", help="Kind of output.")
@data_dir_option("the log and the output")
def benchmark(messages: int, rounds: int, every_seconds: float, kind: str, data_dir: Path) -> None:
    """Measure the seconds of incremental exports in a process that keeps its Spark."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        storage_path = Path(name) / "data"
        make_queue(storage_path, messages)
        found = find_queue(storage_path, VHOST, QUEUE)
        identity = LogIdentity(found.vhost, found.queue, found.incarnation)
        log, _ = Log.open(found.directory, identity, LogOptions())
        seconds: list[float] = []
        for document in _documents(storage_path, Path(name) / "out", every_seconds, kind):
            if len(seconds) == rounds + _COLD_ROUNDS:
                break
            if document["exit_code"] == 0:
                seconds.append(document["seconds"])
                append_messages(log, messages)
        log.close()
    warm = sorted(seconds[_COLD_ROUNDS:])
    click.echo(
        f"{len(warm)} rounds of {messages:,} messages, {kind}, every "
        f"{format_duration(every_seconds)}: median {median(warm):.2f} s, worst {warm[-1]:.2f} s; "
        f"the first round, with the start of Spark: {seconds[0]:.1f} s"
    )


def _documents(
    storage_path: Path, out: Path, every_seconds: float, kind: str
) -> Iterator[dict[str, Any]]:
    """Yield the results of rounds, until the caller has enough."""
    command = (
        *(sys.executable, "-m", "amqp_server", "export", "--json", "--queue", QUEUE, "--to", kind),
        *("--storage-path", str(storage_path), "--out", str(out)),
        *("--every", format_duration(every_seconds)),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield json.loads(line)
        finally:
            process.terminate()
