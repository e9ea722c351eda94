"""What `amqp-server export` does once its options are read: this imports Spark and Arrow."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from appendlog import CorruptRecordError, LogError
from appendlog.spark.errors import (
    CorruptLogError,
    DataLossError,
    ExportError,
    SparkFailedError,
)
from appendlog.spark.exporting.export import ExportReport, OnProgress, run_export
from appendlog.spark.exporting.export_plan import ExportPlan, plan_export
from appendlog.spark.exporting.lease import ExportLease, lease_for_export
from appendlog.spark.exporting.output import OutputDirectory
from appendlog.spark.planning.queues import find_queue
from appendlog.spark.running.session import spark_session
from cli.parameters import format_size

EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2
EXIT_NOTHING_NEW: Final = 3
EXIT_DATA_LOSS: Final = 4
EXIT_CORRUPT: Final = 5

GAPS_SHOWN: Final = 3


class ExportFailedError(click.ClickException):
    """An export that did not happen: one line on standard error, and an exit code."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        # click calls it a ClassVar and reads it from the instance.
        self.exit_code = _exit_code(error)  # type: ignore[misc]


def run(
    storage_path: Path,
    vhost: str,
    queue: str,
    out: str,
    since: int | None,
    until: int | None,
    master: str,
) -> int:
    """Export; return the exit code.

    Args:
        storage_path: Data directory.
        vhost: Virtual host of the queue.
        queue: Its name.
        out: Where to write.
        since: First offset; None: all that is not there yet.
        until: End of the offsets, exclusive; None: all that is safely on the disk.
        master: Where Spark runs.

    Raises:
        ExportFailedError: Nothing was exported.
    """
    if "://" in out:
        raise click.UsageError(f"--out: {out!r} is a URL, only directories can be written so far")
    try:
        log = find_queue(storage_path, vhost, queue)
        output = OutputDirectory(Path(out).absolute(), log)
        with lease_for_export(storage_path, log, since or 0, _say) as lease:
            plan = plan_export(log, output.covered(), since, until)
            if not plan.splits:
                click.echo(_describe_nothing(plan))
                return EXIT_NOTHING_NEW
            lease.hold_from(plan.splits[0].start_offset)
            _export(plan, output, master, lease)
    except (ExportError, LogError, OSError) as error:
        raise ExportFailedError(error) from error
    return 0


def _export(plan: ExportPlan, output: OutputDirectory, master: str, lease: ExportLease) -> None:
    note = f"queue {plan.log.queue}: {plan.offset_count} offsets in {len(plan.splits)} parts"
    _say(f"{note}; starting Spark ({master})")
    with (
        _spark_log() as log_path,
        spark_session(master, log_path) as session,
        _progress(len(plan.splits)) as on_progress,
    ):
        started = time.monotonic()
        report = run_export(session.sparkContext, output, plan, lease.renewing(on_progress))
        seconds = time.monotonic() - started
    click.echo(_describe_report(plan, report, seconds))


@contextmanager
def _spark_log() -> Iterator[Path]:
    """Give Spark a file for what it has to say; it stays when Spark is what failed."""
    directory = Path(tempfile.mkdtemp(prefix="amqp-server-export-"))
    path = directory / "spark.log"
    try:
        yield path
    except SparkFailedError as error:
        raise SparkFailedError(f"{error}; more in {path}") from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _progress(count: int) -> Iterator[OnProgress]:
    """Show progress: a bar on a terminal, else a line whenever another tenth is done."""
    if sys.stderr.isatty():
        with click.progressbar(length=count, label="exporting", file=sys.stderr) as bar:
            yield lambda done, _: bar.update(done - bar.pos)
        return
    shown = 0

    def show(done: int, total: int) -> None:
        nonlocal shown
        if done * 10 // total > shown * 10 // total:
            shown = done
            _say(f"{done} of {total} parts written")

    yield show


def _exit_code(error: Exception) -> int:
    if isinstance(error, DataLossError):
        return EXIT_DATA_LOSS
    if isinstance(error, CorruptLogError | CorruptRecordError):
        return EXIT_CORRUPT
    is_refused = isinstance(error, ExportError) and not isinstance(error, SparkFailedError)
    return EXIT_REFUSED if is_refused else EXIT_FAILED


def _say(text: str) -> None:
    click.echo(text, err=True)


def _describe_nothing(plan: ExportPlan) -> str:
    return (
        f"nothing new in queue {plan.log.queue}: the log is durable up to offset "
        f"{plan.durable_end}, and [{plan.start_offset}, {plan.end_offset}) is exported"
        if plan.start_offset < plan.end_offset
        else f"nothing new in queue {plan.log.queue}: no offset at or above {plan.start_offset}, "
        f"the log is durable up to {plan.durable_end}"
    )


def _describe_report(plan: ExportPlan, report: ExportReport, seconds: float) -> str:
    first, last = plan.splits[0].start_offset, plan.splits[-1].end_offset
    lines = [
        f"exported {report.rows} messages, offsets [{first}, {last}) of queue {plan.log.queue}, "
        f"to {report.folder}: {report.files} files, {_rough_size(report.size_bytes)}, "
        f"{seconds:.1f} s"
    ]
    if plan.log_start_offset and first == plan.log_start_offset:
        lines.append(f"note: the log begins at offset {first}; what was before it is settled")
    if report.missing:
        shown = ", ".join(f"[{start}, {end})" for start, end in report.gaps[:GAPS_SHOWN])
        more = ", ..." if len(report.gaps) > GAPS_SHOWN else ""
        lines.append(f"note: {report.missing} offsets are not in the log: {shown}{more}")
    if report.undecodable:
        lines.append(
            f"note: {report.undecodable} messages have headers or properties that do not add up; "
            "they are null in their rows"
        )
    return "\n".join(lines)


def _rough_size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB" if size_bytes >= 2**20 else format_size(size_bytes)
