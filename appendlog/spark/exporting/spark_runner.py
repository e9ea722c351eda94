"""Runs the tasks of an export as tasks of Spark, which schedules and retries them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
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
# A JVM that dies in the middle of an answer is the last two.
_SPARK_ERRORS: Final = (PySparkException, Py4JError, ConnectionError, EOFError)


class SparkRunner:
    """Runs tasks in Spark, local or on a cluster; see `TaskRunner`.

    A context keeps something for each accumulator, and for each thread that calls it. So all runs
    share one of either, and a runner can run tasks for ever.

    Args:
        context: Context of the running Spark.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._pool = ThreadPoolExecutor(1, "spark-job")
        self._done_bytes: Accumulator[int] | None = None

    @property
    def context(self) -> SparkContext:
        """Return the context of Spark."""
        return self._context

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """See `TaskRunner.run`. Waits in this thread, so that Ctrl-C can interrupt it."""
        on_done(0)
        group = uuid4().hex
        try:
            if self._done_bytes is None:
                self._done_bytes = self._context.accumulator(0)
            done_bytes = self._done_bytes
            before = done_bytes.value
            job = self._pool.submit(self._collect, tasks, group, done_bytes)
            try:
                _wait(job, lambda: on_done(done_bytes.value - before))
                return job.result()
            except _SPARK_ERRORS:
                raise
            except BaseException:
                with suppress(*_SPARK_ERRORS):
                    self._context.cancelJobGroup(group)
                wait([job])
                raise
        except _SPARK_ERRORS as error:
            raise SparkFailedError(f"Spark failed: {reason(error)}") from error

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


def _wait(job: "Future[list[TaskResult]]", on_time: Callable[[], None]) -> None:
    while True:
        try:
            job.exception(timeout=POLL_SECONDS)
        except NotYet:
            on_time()
        else:
            return
