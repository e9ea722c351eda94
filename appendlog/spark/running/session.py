"""Starting Spark for one export: quick, quiet, and with the right Python in the workers."""

import os
import re
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import appendlog
from appendlog.spark.errors import MasterError, SparkFailedError
from appendlog.spark.running.java import check_java

APPLICATION: Final = "amqp-server export"
LOCAL: Final = "local"
_MASTER: Final = re.compile(
    r"(?:local(?:\[(?:\d+|\*)(?:, *\d+)?\])?|yarn|(?:spark|k8s)://\S+|local-cluster\[.*\])\Z"
)
_LOOPBACK: Final = "127.0.0.1"
# A batch job of seconds: the second compiler and a parallel collector only cost start time.
_QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def spark_session(master: str, log_path: Path) -> Iterator[SparkSession]:
    """Start Spark and stop it at the end.

    Sets PYSPARK_PYTHON, and for a local master SPARK_LOCAL_IP, in this process's environment:
    Spark takes them from there only.

    Args:
        master: Spark's master URL, such as `local[*]` or `spark://host:7077`.
        log_path: File that gets what the JVM and the Python workers say; created.

    Raises:
        MasterError: The URL is none that Spark knows, or of Spark Connect.
        JavaError: Java is missing or too old.
        SparkFailedError: Spark did not start.
    """
    check_master(master)
    check_java()
    _prepare_environment(master)
    builder = SparkSession.builder.config(conf=_configuration(master))
    try:
        with _errors_into(log_path):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkFailedError(f"Spark did not start: {reason(error)}") from error
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        session.stop()


def check_master(master: str) -> None:
    """Refuse what Spark would refuse only after seconds, and with a riddle.

    Raises:
        MasterError: It is none that Spark knows, or of Spark Connect.
    """
    if master.startswith("sc://"):
        raise MasterError(f"{master}: Spark Connect cannot run this job; give the cluster's URL")
    if not _MASTER.match(master):
        raise MasterError(
            f"{master!r} is no master of Spark: write local[*], local[4], spark://host:port, "
            "yarn or k8s://url"
        )


def reason(error: Exception) -> str:
    """Return the line of an error from the JVM that says what went wrong.

    Of a task that failed in Python it is the last line of its traceback.
    """
    text = str(error).split("\n\tat ", 1)[0].split("\n\nJVM stacktrace:", 1)[0]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    return lines[-1] if lines else type(error).__name__


def _prepare_environment(master: str) -> None:
    if master.startswith(LOCAL):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _configuration(master: str) -> SparkConf:
    configuration = (
        SparkConf()
        .setMaster(master)
        .setAppName(APPLICATION)
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", "false")
        # The workers put the current directory in front of everything else; a user's folder
        # named like one of ours (`metadata`) would then be imported in its place.
        .set("spark.executorEnv.PYTHONSAFEPATH", "1")
    )
    if not master.startswith(LOCAL):
        return configuration
    if (root := _import_root()) is not None:
        configuration.set("spark.executorEnv.PYTHONPATH", root)
    return (
        configuration.set("spark.driver.host", _LOOPBACK)
        .set("spark.driver.bindAddress", _LOOPBACK)
        .set("spark.driver.extraJavaOptions", _QUICK_JVM)
    )


def _import_root() -> str | None:
    """Return where our packages lie when a worker would not find them by itself."""
    root = Path(appendlog.__file__).resolve().parent.parent
    installed = {Path(path).resolve() for path in [*site.getsitepackages(), *_user_site()]}
    return None if root in installed else str(root)


def _user_site() -> list[str]:
    return [site.getusersitepackages()] if site.ENABLE_USER_SITE else []


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """Send standard error into a file; a process that is started meanwhile keeps it there.

    The JVM writes there for all its life: what Java and log4j have to say before any level can
    be set is no news to a user, and is at hand when something goes wrong.
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
