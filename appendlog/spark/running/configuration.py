"""Configures Spark for an export, on this machine or on a cluster."""

import os
import site
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkConf

import appendlog
from appendlog.spark.errors import SparkConfError
from appendlog.spark.running.masters import LOCAL, STANDALONE, own_address

APPLICATION: Final = "amqp-server export"
PY_FILES: Final = "spark.submit.pyFiles"
_LOOPBACK: Final = "127.0.0.1"
_DRIVER_HOST: Final = "spark.driver.host"
# In a job of seconds, the second compiler and a parallel collector only cost start time.
_QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A user who brings code to the workers by one of these does not want the archive before it.
_OWN_CODE: Final = (PY_FILES, "spark.archives", "spark.yarn.dist.archives")


def parse_spark_conf(texts: Iterable[str]) -> dict[str, str]:
    """Parse settings of Spark, texts `spark.KEY=VALUE`.

    Raises:
        SparkConfError: A text is no setting, or the setting has an option of its own.
    """
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key.startswith("spark."):
            raise SparkConfError(
                f"{key!r} is no setting of Spark: write KEY=VALUE, as in spark.executor.memory=2g"
            )
        if key == "spark.master":
            raise SparkConfError("spark.master: give it as --master")
        settings[key] = value
    return settings


def configuration(master: str, settings: Mapping[str, str]) -> SparkConf:
    """Return all settings of a session; those of the user win.

    Args:
        master: URL of Spark's master, after `check_master`.
        settings: Settings of the user.

    Raises:
        MasterError: The master does not answer any more.
    """
    conf = (
        SparkConf()
        .setMaster(master)
        .setAppName(APPLICATION)
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", "false")
        # Without a UI nobody sees the jobs that Spark remembers; an export that repeats itself has
        # thousands of them.
        .set("spark.ui.retainedJobs", "10")
        .set("spark.ui.retainedStages", "10")
        .set("spark.ui.retainedTasks", "1000")
        .set("spark.driver.extraJavaOptions", _QUICK_JVM)
        # Python workers would import from the current directory first: a user's folder with a
        # name of our packages (`metadata`) would be imported in its place.
        .set("spark.executorEnv.PYTHONSAFEPATH", "1")
    )
    if master.startswith(LOCAL):
        if (root := _import_root()) is not None:
            conf.set("spark.executorEnv.PYTHONPATH", root)
        conf.set(_DRIVER_HOST, _LOOPBACK).set("spark.driver.bindAddress", _LOOPBACK)
    elif master.startswith(STANDALONE) and "SPARK_LOCAL_IP" not in os.environ:
        conf.set(_DRIVER_HOST, own_address(master))
    for key, value in settings.items():
        conf.set(key, value)
    return conf


def needs_package(master: str, settings: Mapping[str, str]) -> bool:
    """Return whether the workers need the archive: on a cluster, unless the user sends code."""
    return not master.startswith(LOCAL) and settings.keys().isdisjoint(_OWN_CODE)


def prepare_environment(master: str) -> None:
    """Set the environment variables that Spark reads in this process only."""
    if master.startswith(LOCAL):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _import_root() -> str | None:
    """Return the directory of our packages, if a worker would not find it by itself."""
    root = Path(appendlog.__file__).resolve().parent.parent
    installed = {Path(path).resolve() for path in [*site.getsitepackages(), *_user_site()]}
    return None if root in installed else str(root)


def _user_site() -> list[str]:
    return [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
