"""The fused export: Spark plans and schedules, each task decodes and writes its own file.

Rows never pass through the JVM: a task reads its split, builds Arrow batches and writes
Parquet with Arrow's writer. When all tasks have succeeded, the driver moves the files into
their place. Until then the output is what it was.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from appendlog.spark.errors import CorruptLogError, DataLossError, OutputError, SparkFailedError
from appendlog.spark.exporting.export_plan import ExportPlan
from appendlog.spark.exporting.output import FinishedPart, OutputDirectory
from appendlog.spark.exporting.part_writer import PartResult, PartTask, write_parts
from appendlog.spark.running.session import reason

POLL_SECONDS: Final = 0.2

OnProgress = Callable[[int, int], None]
"""Called with (parts done, parts in all), from the thread that called `run_export`."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote.

    Attributes:
        folder: Where the files are.
        files: How many.
        rows: Messages in them.
        size_bytes: Of the files.
        missing: Offsets that are not in the log: of transient messages that were settled in
            memory, or that recovery reported as lost.
        gaps: Which ones, as ranges, in order; the first hundred of each file.
        undecodable: Messages exported with null headers or properties, because the bytes of
            these do not add up.
    """

    folder: Path
    files: int
    rows: int
    size_bytes: int
    missing: int
    gaps: tuple[tuple[int, int], ...]
    undecodable: int


def run_export(
    context: SparkContext, output: OutputDirectory, plan: ExportPlan, on_progress: OnProgress
) -> ExportReport:
    """Write what was planned; all of it or nothing, a crash while committing aside.

    Args:
        context: A running Spark, local or a cluster; log and output must be reachable from
            its workers under the same paths.
        output: Where to write.
        plan: Of `plan_export`, with at least one split.
        on_progress: Called now and then.

    Raises:
        CorruptLogError: Damage before the durable end; nothing was committed.
        DataLossError: Retention removed a segment since the planning; nothing was committed.
        OutputError: The output cannot be written, or changed since the planning.
        SparkFailedError: A task failed for another reason; nothing was committed.
    """
    with output.locked() as directory:
        if tuple(output.covered()) != plan.covered:
            raise OutputError(f"{output.folder}: another export has written here; run it again")
        tasks = [PartTask(plan.log, split, directory) for split in plan.splits]
        results = _run(context, tasks, on_progress)
        _refuse_damaged(plan, results)
        output.commit(
            [FinishedPart(r.start_offset, r.end_offset, r.path) for r in results if r.path]
        )
    return ExportReport(
        folder=output.folder,
        files=len(results),
        rows=sum(result.rows for result in results),
        size_bytes=sum(result.size_bytes for result in results),
        missing=sum(result.missing for result in results),
        gaps=tuple(gap for result in results for gap in result.gaps),
        undecodable=sum(result.undecodable for result in results),
    )


def _refuse_damaged(plan: ExportPlan, results: Sequence[PartResult]) -> None:
    damage = [result.damage for result in results if result.damage]
    if damage:
        more = f" (and {len(damage) - 1} more places)" if len(damage) > 1 else ""
        raise CorruptLogError(f"{damage[0]}{more}; nothing was exported")
    for result in results:
        if result.is_removed:
            raise DataLossError(plan.log.queue, result.start_offset, result.end_offset)
        assert result.rows + result.missing == result.end_offset - result.start_offset


def _run(
    context: SparkContext, tasks: Sequence[PartTask], on_progress: OnProgress
) -> list[PartResult]:
    """Run all tasks in Spark; poll it from this thread, so that it can be interrupted."""
    group = uuid4().hex
    on_progress(0, len(tasks))
    with ThreadPoolExecutor(1, "spark-job") as pool:
        job = pool.submit(_collect, context, tasks, group)
        try:
            _wait(job, context, group, len(tasks), on_progress)
            results = job.result()
        except (PySparkException, Py4JError) as error:
            raise SparkFailedError(f"Spark failed: {reason(error)}") from error
        except BaseException:
            context.cancelJobGroup(group)
            raise
    on_progress(len(tasks), len(tasks))
    return results


def _collect(context: SparkContext, tasks: Sequence[PartTask], group: str) -> list[PartResult]:
    context.setJobGroup(group, "export", interruptOnCancel=True)
    return context.parallelize(tasks, len(tasks)).mapPartitions(write_parts).collect()


def _wait(
    job: "Future[list[PartResult]]",
    context: SparkContext,
    group: str,
    count: int,
    on_progress: OnProgress,
) -> None:
    tracker = context.statusTracker()
    while True:
        try:
            job.exception(timeout=POLL_SECONDS)
        except NotYet:
            stages = [
                tracker.getStageInfo(stage)
                for number in tracker.getJobIdsForGroup(group)
                if (info := tracker.getJobInfo(number))
                for stage in info.stageIds
            ]
            done = sum(stage.numCompletedTasks for stage in stages if stage)
            on_progress(min(done, count), count)
        else:
            return
