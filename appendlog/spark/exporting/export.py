"""The fused export: tasks decode and write their own files, the driver commits them.

Rows never pass through the JVM: a task reads its splits, builds Arrow batches and writes files.
When all tasks have succeeded, the driver commits the files of each queue, queue by queue. A
queue whose log is damaged, or has lost what was planned, costs no other queue anything.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from appendlog.errors import LogError
from appendlog.spark.errors import AmqplogError, CorruptLogError, DataLossError
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.export_plan import QueuePlan
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.file_task import FILE_BYTES, FileTask, TaskResult
from appendlog.spark.exporting.files.row_groups import GAPS_MAX
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges

OnProgress = Callable[[int, int], None]
"""Called with (bytes of log done, bytes in all), from the thread that called `run_export`."""


class TaskRunner(Protocol):
    """Carries tasks out, somewhere."""

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """Return the results of all tasks, in their order.

        Args:
            tasks: At least one.
            on_done: Called now and then with the bytes of log that are done, which only grow.

        Raises:
            SparkFailedError: A task failed for good; the others have ended.
        """


@dataclass(frozen=True, slots=True)
class QueueExport:
    """One queue of a run.

    Attributes:
        plan: What is to be done; not empty.
        destination: Where it goes.
    """

    plan: QueuePlan
    destination: Destination


@dataclass(frozen=True, slots=True)
class QueueReport:
    """What an export wrote of one queue.

    Attributes:
        files: How many.
        rows: Messages in them.
        size_bytes: Of the files.
        missing: Offsets that are not in the log: of transient messages that were settled in
            memory, or that recovery or retention took.
        gaps: Which ones, as ranges, in order; the first hundred.
        corrupt: Offsets in damaged parts of the log that were left out.
        excluded: Offsets that were not asked for, between others that were.
        undecodable: Messages exported with null headers or properties, because the bytes of
            these do not add up.
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
    """How it ended for one queue: a report or an error.

    Attributes:
        export: Which queue.
        report: What is in the output now.
        error: Why nothing of this run is.
    """

    export: QueueExport
    report: QueueReport | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How files are written.

    Attributes:
        file_format: What kind.
        target_bytes: A file ends once it has this size, >= 1.
        skips_damage: Damaged parts of the log are left out and put into quarantine.
    """

    file_format: FileFormat
    target_bytes: int = FILE_BYTES
    skips_damage: bool = False


def run_export(
    runner: TaskRunner,
    exports: Sequence[QueueExport],
    settings: FileSettings,
    on_progress: OnProgress,
    on_outcome: Callable[[QueueOutcome], None],
) -> None:
    """Write what was planned; of each queue all of it or nothing.

    Args:
        runner: Log and output must be reachable from where it runs tasks.
        exports: Different queues.
        settings: How files are written.
        on_progress: Called now and then.
        on_outcome: Called once for each queue, when its end is known.

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
    """Commit the files of one queue, if all that was planned is accounted for."""
    _refuse_damaged(export.plan, tasks, results)
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
        # Also of splits that were not even read.
        excluded=export.plan.offset_count - rows - missing - lost,
        undecodable=sum(account.undecodable for account in accounts),
    )


def _gaps(plan: QueuePlan, result: TaskResult) -> Sequence[Range]:
    """Return what is missing: the first ranges of it, or all where no file tells."""
    if result.files or plan.choice is not None:
        return result.account.gaps
    whole = [(result.account.start_offset, result.account.end_offset)]
    return subtract_ranges(whole, join_ranges((lost.start, lost.end) for lost in result.corrupt))


def _refuse_damaged(
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
