"""Runs an export: tasks decode logs and write files, the driver commits the files.

Rows never pass through the JVM: a task reads its splits, builds Arrow batches and writes files.
When all tasks have succeeded, the driver commits the files, one queue after another. A queue whose
log is damaged, or has lost planned offsets, does not affect the other queues.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from appendlog.errors import LogError
from appendlog.spark.errors import (
    AmqplogError,
    CorruptLogError,
    DataLossError,
    PartitionFieldError,
)
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.export_plan import QueuePlan
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.file_task import FILE_BYTES, FileTask, TaskResult
from appendlog.spark.exporting.files.row_groups import GAPS_MAX
from appendlog.spark.exporting.partition_fields import PartitionField
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges

OnProgress = Callable[[int, int], None]
"""Called with bytes of log that are done and bytes in all, in the thread of `run_export`."""


class TaskRunner(Protocol):
    """Runs tasks: in Spark, or in tests in this process."""

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """Return the results of all tasks, in their order.

        Args:
            tasks: At least one task.
            on_done: Called now and then with the bytes of log that are done; never decreases.

        Raises:
            SparkFailedError: A task failed in all tries; no other task is running.
        """


@dataclass(frozen=True, slots=True)
class QueueExport:
    """One queue of a run.

    Attributes:
        plan: Plan of the queue; not empty.
        destination: Output of the queue.
    """

    plan: QueuePlan
    destination: Destination


@dataclass(frozen=True, slots=True)
class QueueReport:
    """Result of an export for one queue.

    Attributes:
        files: Number of files.
        rows: Messages in the files.
        size_bytes: Size of the files in bytes.
        missing: Offsets that the log does not have: of transient messages that were settled in
            memory, or that recovery or retention removed.
        gaps: First hundred ranges of missing offsets, in order.
        corrupt: Offsets in damaged parts of the log, which were left out.
        excluded: Offsets that the user did not ask for, between others that the user did.
        undecodable: Exported messages whose headers or properties are malformed.
    """

    files: int
    rows: int
    size_bytes: int
    missing: int
    gaps: tuple[Range, ...]
    corrupt: int
    excluded: int
    undecodable: int


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """End of an export for one queue: a report or an error.

    Attributes:
        export: Queue and output.
        report: Result, if the files were committed.
        error: Why nothing was committed, otherwise.
    """

    export: QueueExport
    report: QueueReport | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Settings for the files of an export.

    Attributes:
        file_format: Format of the files.
        target_bytes: Size in bytes at which a file ends, >= 1.
        skips_damage: Whether to leave out damaged parts of the log, and quarantine them.
        fields: Fields of messages by which rows are divided into folders.
        keeps_fields: Whether the files have the fields as columns too.
    """

    file_format: FileFormat
    target_bytes: int = FILE_BYTES
    skips_damage: bool = False
    fields: tuple[PartitionField, ...] = ()
    keeps_fields: bool = False


def run_export(
    runner: TaskRunner,
    exports: Sequence[QueueExport],
    settings: FileSettings,
    on_progress: OnProgress,
    on_outcome: Callable[[QueueOutcome], None],
) -> None:
    """Export what was planned; of each queue everything or nothing.

    Args:
        runner: Runs the tasks; they must be able to reach logs and output.
        exports: Plans and outputs of different queues.
        settings: Settings for the files.
        on_progress: Called now and then.
        on_outcome: Called once for each queue, at its end.

    Raises:
        SparkFailedError: A task failed; nothing was committed.
    """
    with ExitStack() as stack:
        begun: list[tuple[QueueExport, list[FileTask]]] = []
        for export in exports:
            try:
                folder = stack.enter_context(export.destination.begin(export.plan.job))
            except (AmqplogError, OSError) as error:
                on_outcome(QueueOutcome(export, error=error))
            else:
                begun.append((export, _tasks(export, folder, settings)))
        results = iter(_run(runner, [task for _, tasks in begun for task in tasks], on_progress))
        for export, tasks in begun:
            mine = [next(results) for _ in tasks]
            try:
                report = _commit(export, tasks, mine)
            except (AmqplogError, LogError, OSError) as error:
                on_outcome(QueueOutcome(export, error=error))
            else:
                on_outcome(QueueOutcome(export, report=report))


def _tasks(export: QueueExport, folder: str, settings: FileSettings) -> list[FileTask]:
    plan = export.plan
    return [
        FileTask(
            log=plan.log,
            splits=piece.splits,
            store=export.destination.store,
            folder=folder,
            file_format=settings.file_format,
            subfolder=piece.part.folder,
            target_bytes=settings.target_bytes,
            choice=plan.choice
            and plan.choice.clip(piece.splits[0].start_offset, piece.splits[-1].end_offset),
            skips_damage=settings.skips_damage,
            fields=settings.fields,
            keeps_fields=settings.keeps_fields,
        )
        for piece in plan.pieces
    ]


def _run(
    runner: TaskRunner, tasks: Sequence[FileTask], on_progress: OnProgress
) -> list[TaskResult]:
    if not tasks:
        return []
    total = sum(task.size_bytes for task in tasks)
    results = runner.run(tasks, lambda done: on_progress(min(done, total), total))
    on_progress(total, total)
    return results


def _commit(
    export: QueueExport, tasks: Sequence[FileTask], results: Sequence[TaskResult]
) -> QueueReport:
    """Commit the files of one queue, if every planned offset is accounted for."""
    _refuse_unfinished(export.plan, tasks, results)
    files = [file for result in results for file in result.files]
    corrupt = [damage for result in results for damage in result.corrupt]
    gaps = join_ranges(
        [*export.plan.lost, *(gap for result in results for gap in _gaps(export.plan, result))]
    )
    export.destination.commit(export.plan.job, files, gaps, corrupt)
    accounts = [result.account for result in results]
    rows = sum(file.rows for file in files)
    missing = offsets_in(export.plan.lost) + sum(account.missing for account in accounts)
    lost = sum(account.corrupt for account in accounts)
    return QueueReport(
        files=len(files),
        rows=rows,
        size_bytes=sum(file.size_bytes for file in files),
        missing=missing,
        gaps=tuple(gaps[:GAPS_MAX]),
        corrupt=lost,
        # Also counts offsets of splits that were not read at all.
        excluded=export.plan.offset_count - rows - missing - lost,
        undecodable=sum(account.undecodable for account in accounts),
    )


def _gaps(plan: QueuePlan, result: TaskResult) -> Sequence[Range]:
    """Return missing ranges: the first ones, or all of them if the task wrote no file."""
    if result.files or plan.choice is not None:
        return result.account.gaps
    whole = [(result.account.start_offset, result.account.end_offset)]
    return subtract_ranges(whole, join_ranges((lost.start, lost.end) for lost in result.corrupt))


def _refuse_unfinished(
    plan: QueuePlan, tasks: Sequence[FileTask], results: Sequence[TaskResult]
) -> None:
    damage = [result.damage for result in results if result.damage]
    if damage:
        more = f" (and {len(damage) - 1} more places)" if len(damage) > 1 else ""
        raise CorruptLogError(
            f"{damage[0]}{more}; nothing of queue {plan.log.queue!r} was exported: "
            "--on-corrupt quarantine exports the rest"
        )
    for task, result in zip(tasks, results, strict=True):
        if result.is_removed:
            raise DataLossError(plan.log.queue, task.start_offset, task.end_offset)
        if result.refusal:
            raise PartitionFieldError(f"queue {plan.log.queue!r}: {result.refusal}")
