"""Spark of an export: starts when there are tasks for it, and again if it has died."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appendlog.spark.errors import SparkFailedError
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult
from appendlog.spark.exporting.spark_runner import SparkRunner
from appendlog.spark.running.session import is_alive, spark_session

LOG_BYTES_MAX: Final = 1 << 20
"""Size of Spark's log at which the next run begins it again."""


class SparkStarter:
    """Runs tasks in a Spark that it starts for the first ones: all refusals come before that.

    Leaving the `with` block stops Spark. The folder with Spark's log stays only if the last run
    failed in Spark.

    Args:
        master: Master of Spark.
        settings: Settings of Spark.
        say: Called with lines for the user.
        on_start: Called when Spark has started.
    """

    def __init__(
        self,
        master: str,
        settings: Mapping[str, str],
        say: Callable[[str], None],
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        self._master = master
        self._settings = settings
        self._say = say
        self._on_start = on_start
        self._folder: Path | None = None
        self._keeps_log = False
        self._session = ExitStack()
        self._runner: SparkRunner | None = None

    @property
    def has_started(self) -> bool:
        """Whether there is a Spark for the next tasks, unless it has died."""
        return self._runner is not None

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """See `TaskRunner.run`. A Spark that has died since the last run is started again."""
        if self._runner is not None and not is_alive(self._runner.context):
            self._stop()
        log = self._log()
        try:
            results = (self._runner or self._start(log)).run(tasks, on_done)
        except SparkFailedError as error:
            self._keeps_log = True
            raise SparkFailedError(f"{error}; more in {log}") from error
        self._keeps_log = False
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._stop()
        finally:
            if self._folder is not None and not self._keeps_log:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, log: Path) -> SparkRunner:
        self._say(f"starting Spark ({self._master})")
        session = self._session.enter_context(
            spark_session(self._master, log, self._settings, self._say)
        )
        self._runner = SparkRunner(session.sparkContext)
        self._on_start()
        return self._runner

    def _stop(self) -> None:
        self._runner = None
        self._session.close()

    def _log(self) -> Path:
        """Return the file for Spark's output, emptied if it has grown."""
        if self._folder is None or not self._folder.is_dir():
            self._folder = Path(tempfile.mkdtemp(prefix="amqp-server-export-"))
        path = self._folder / "spark.log"
        # Spark appends to it for as long as it runs.
        if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
            path.write_bytes(b"")
        return path
