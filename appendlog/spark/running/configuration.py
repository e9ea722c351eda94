"""How Spark is set up for an export, on this machine or on a cluster."""

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
# A batch job of seconds: the second compiler and a parallel collector only cost start time.
_QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Whoever brings code to the workers by one of these does not want ours in front of it.
_OWN_CODE: Final = (PY_FILES, "spark.archives", "spark.yarn.dist.archives")


def parse_spark_conf(texts: Iterable[str]) -> dict[str, str]:
    """Return settings of Spark from texts `spark.KEY=VALUE`.

    Raises:
        SparkConfError: It is none, or one that has an option of its own.
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
        master: That was checked.
        settings: Of the user.

    Raises:
        MasterError: The master does not answer any more.
    """
    conf = (
        SparkConf()
        .setMaster(master)
        .setAppName(APPLICATION)
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", "false")
        .set("spark.driver.extraJavaOptions", _QUICK_JVM)
        # The workers put the current directory in front of everything else; a user's folder
        # named like one of ours (`metadata`) would then be imported in its place.
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
    """Tell whether the workers are to get our code: they have it where this machine is all."""
    return not master.startswith(LOCAL) and settings.keys().isdisjoint(_OWN_CODE)


def prepare_environment(master: str) -> None:
    """Set what Spark takes from the environment of this process only."""
    if master.startswith(LOCAL):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _import_root() -> str | None:
    """Return where our packages lie when a worker would not find them by itself."""
    root = Path(appendlog.__file__).resolve().parent.parent
    installed = {Path(path).resolve() for path in [*site.getsitepackages(), *_user_site()]}
    return None if root in installed else str(root)


def _user_site() -> list[str]:
    return [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
