"""Starts Spark for one export: quickly, without log noise, and with the right Python in workers."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from appendlog.spark.errors import SparkFailedError
from appendlog.spark.running.configuration import (
    configuration,
    needs_package,
    prepare_environment,
)
from appendlog.spark.running.java import check_java
from appendlog.spark.running.java_process import (
    expect_lost_java,
    forget_java,
    is_java_running,
    killed_if_interrupted,
)
from appendlog.spark.running.masters import STANDALONE, check_master
from appendlog.spark.running.packaging import DEPRECATION, package_archive

_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_POLL_SECONDS: Final = 0.1
_SILENT_SECONDS: Final = 20
_OUR_ERROR: Final = re.compile(r"\Aappendlog\.[\w.]+: ")


@contextmanager
def spark_session(
    master: str,
    log_path: Path,
    settings: Mapping[str, str] = _NO_SETTINGS,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end.

    Sets PYSPARK_PYTHON, and for a local master SPARK_LOCAL_IP, in this process's environment:
    Spark takes them from there only. Workers of a cluster get the package as an archive of its
    sources, with a warning to the user, unless the settings bring other code to them.

    Args:
        master: Spark's master URL, such as `local[*]` or `spark://host:7077`.
        log_path: File for the output of the JVM and the Python workers; created.
        settings: Settings of the user; they win over ours.
        say: Called with lines for the user: warnings, and what the start waits for.

    Raises:
        MasterError: The URL is no master that this job can run on, or no master answers.
        JavaError: Java is missing or too old.
        SparkFailedError: Spark did not start.
    """
    check_master(master)
    check_java()
    prepare_environment(master)
    builder = SparkSession.builder.config(conf=configuration(master, settings))
    try:
        with _errors_into(log_path), killed_if_interrupted():
            session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkFailedError(f"Spark did not start: {reason(error)}") from error
    try:
        context = session.sparkContext
        context.setLogLevel("ERROR")
        expect_lost_java(context)
        if needs_package(master, settings):
            say(f"warning: {DEPRECATION}")
            context.addPyFile(str(package_archive()))
        if master.startswith(STANDALONE):
            _wait_for_executor(context, master, say)
        yield session
    finally:
        _stop(session)


def is_alive(context: SparkContext) -> bool:
    """Return whether Spark can take tasks: its JVM runs, and nothing has stopped its context."""
    if context._jsc is None:
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def _stop(session: SparkSession) -> None:
    """Stop Spark. If its JVM has died, release what is left, so that another can start."""
    if is_java_running():
        try:
            session.stop()
        except (Py4JError, OSError):
            # It died while it stopped.
            forget_java(session.sparkContext)
    else:
        forget_java(session.sparkContext)


def _wait_for_executor(context: SparkContext, master: str, say: Callable[[str], None]) -> None:
    """Wait for an executor, with a note to the user: Spark itself waits silently."""
    assert context._jsc is not None
    status = context._jsc.sc().statusTracker()
    note_at = time.monotonic() + _SILENT_SECONDS
    while len(status.getExecutorInfos()) <= 1:  # the driver is one of them
        if time.monotonic() > note_at:
            say(
                f"note: waiting for {master}: no worker has cores and memory free; "
                "--spark-conf spark.executor.memory=512m asks for less"
            )
            note_at = float("inf")
        time.sleep(_POLL_SECONDS)


def reason(error: Exception) -> str:
    """Return the line of an error from the JVM that says what went wrong.

    For a task that failed in Python, that is the last line of its traceback.
    """
    text = str(error).split("\n\tat ", 1)[0].split("\n\nJVM stacktrace:", 1)[0]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    return _OUR_ERROR.sub("", lines[-1]) if lines else type(error).__name__


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """Send standard error into a file; processes that start in the block keep writing to it.

    The JVM keeps it for all its life. Java and log4j write there before a log level can be set;
    users need these lines only if something goes wrong.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        os.dup2(log, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
