"""Runs the tasks of an export as tasks of Spark, which schedules and retries them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from typing import Final
from uuid import uuid4

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException

from appendlog.spark.errors import SparkFailedError
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult, write_files
from appendlog.spark.running.session import reason

POLL_SECONDS: Final = 0.2


class SparkRunner:
    """Runs tasks in Spark, local or on a cluster; see `TaskRunner`.

    Args:
        context: Context of the running Spark.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """See `TaskRunner.run`. Waits in this thread, so that Ctrl-C can interrupt it."""
        on_done(0)
        group = uuid4().hex
        done_bytes = self._context.accumulator(0)
        with ThreadPoolExecutor(1, "spark-job") as pool:
            job = pool.submit(self._collect, tasks, group, done_bytes)
            try:
                _wait(job, done_bytes, on_done)
                return job.result()
            except (PySparkException, Py4JError) as error:
                raise SparkFailedError(f"Spark failed: {reason(error)}") from error
            except BaseException:
                self._context.cancelJobGroup(group)
                raise

    def _collect(
        self, tasks: Sequence[FileTask], group: str, done_bytes: Accumulator[int]
    ) -> list[TaskResult]:
        context = self._context
        context.setJobGroup(group, "export", interruptOnCancel=True)
        one_each = context.parallelize(tasks, len(tasks))
        return one_each.mapPartitions(partial(_write_all, done_bytes)).collect()


def _write_all(done_bytes: Accumulator[int], tasks: Iterable[FileTask]) -> Iterator[TaskResult]:
    for task in tasks:
        yield write_files(task)
        done_bytes.add(task.size_bytes)


def _wait(
    job: "Future[list[TaskResult]]", done_bytes: Accumulator[int], on_done: Callable[[int], None]
) -> None:
    while True:
        try:
            job.exception(timeout=POLL_SECONDS)
        except NotYet:
            on_done(done_bytes.value)
        else:
            return
