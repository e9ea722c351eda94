"""Spark imports every module named `pyspark_...` at its first source in Python, whoever's it is."""

import subprocess
import sys

from pyspark.sql.datasource import DataSource

import pyspark_amqplog

_NEW_MODULES = """
import sys, typing
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_amqplog
print(*sorted(set(sys.modules) - before))
"""


def test_importing_it_imports_nothing_else() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _NEW_MODULES], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["pyspark_amqplog"]


def test_the_class_is_what_spark_looks_for() -> None:
    assert issubclass(pyspark_amqplog.DefaultSource, DataSource)
    assert pyspark_amqplog.DefaultSource.name() == "amqplog"
    assert pyspark_amqplog.DefaultSource.__module__ == "pyspark_amqplog"
