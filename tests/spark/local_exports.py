"""Exports in this process: the tasks and the driver of a real one, with no Spark between them."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.export import (
    FileSettings,
    QueueExport,
    QueueOutcome,
    QueueReport,
    run_export,
)
from appendlog.spark.exporting.export_plan import ExportRequest, QueuePlan, in_tasks, plan_queue
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult, write_files
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.bounds import Bound
from cli import export_run
from cli.export_spark import SparkStarter
from tests.spark.builders import StoredQueue

PARQUET = FileSettings(ParquetFormat())
CORES = 4


@dataclass
class LocalRunner:
    """Runs tasks one after the other, as copies, as workers get them; see `TaskRunner`."""

    before_task: Callable[[FileTask], None] = field(default=lambda task: None)
    tasks: list[FileTask] = field(default_factory=list)

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        self.tasks += tasks
        results: list[TaskResult] = []
        done_bytes = 0
        for task in tasks:
            self.before_task(task)
            results.append(
                pickle.loads(pickle.dumps(write_files(pickle.loads(pickle.dumps(task)))))
            )
            done_bytes += task.size_bytes
            on_done(done_bytes)
        return results


def run_here(monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    """Let the command run its tasks in this process, wherever it would start Spark for them."""
    runner = LocalRunner()

    def run(
        _: object, tasks: Sequence[FileTask], on_done: Callable[[int], None]
    ) -> list[TaskResult]:
        on_done(0)
        return runner.run(tasks, on_done)

    monkeypatch.setattr(SparkStarter, "run", run)
    monkeypatch.setattr(export_run, "check_java", lambda: None)
    return runner


def destination(stored: StoredQueue, out: Path) -> FilesDestination:
    """Return a queue's part of an output directory."""
    return FilesDestination(LocalStore(out), stored.location)


def request(since: int | None = None, until: int | None = None) -> ExportRequest:
    """Return what asks for a range of offsets."""
    return ExportRequest(
        since=None if since is None else Bound.at_offset(since),
        until=None if until is None else Bound.at_offset(until),
    )


def plan(stored: StoredQueue, to: Destination, wanted: ExportRequest | None = None) -> QueuePlan:
    """Return what is to be done, cut for `CORES`."""
    found = plan_queue(stored.storage_path, stored.location, to, wanted or ExportRequest())
    return in_tasks([found], CORES)[0]


def run_all(
    exports: Sequence[QueueExport],
    settings: FileSettings = PARQUET,
    runner: LocalRunner | None = None,
) -> list[QueueOutcome]:
    """Run an export of several queues; return how it ended for each."""
    outcomes: list[QueueOutcome] = []
    run_export(runner or LocalRunner(), exports, settings, lambda *_: None, outcomes.append)
    return outcomes


def export(
    stored: StoredQueue,
    out: Path,
    wanted: ExportRequest | None = None,
    settings: FileSettings = PARQUET,
    runner: LocalRunner | None = None,
) -> QueueReport | None:
    """Export a queue; None when there is nothing new. Raises what stopped it."""
    to = destination(stored, out)
    planned = plan(stored, to, wanted)
    if planned.is_empty:
        return None
    (outcome,) = run_all([QueueExport(planned, to)], settings, runner)
    if outcome.error is not None:
        raise outcome.error
    return outcome.report
