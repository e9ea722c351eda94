"""A JVM whose start was given up is gone, with any process in its place."""

import subprocess
import sys
from typing import Any, Final

import pytest
from pyspark import java_gateway

from appendlog.spark.running.java_process import killed_if_interrupted

GATEWAY: Final[Any] = java_gateway
ENDLESS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


def start() -> "subprocess.Popen[bytes]":
    """Start what only ends with its input, as PySpark starts a JVM."""
    process: subprocess.Popen[bytes] = GATEWAY.Popen(ENDLESS, stdin=subprocess.PIPE)
    return process


def test_what_was_started_is_killed_when_the_start_is_interrupted() -> None:
    original = GATEWAY.Popen
    processes: list[subprocess.Popen[bytes]] = []

    def interrupted() -> None:
        with killed_if_interrupted():
            processes.append(start())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (process,) = processes
    assert process.returncode == -9
    assert GATEWAY.Popen is original
    assert process.stdin is not None
    process.stdin.close()


def test_what_has_started_stays() -> None:
    original = GATEWAY.Popen
    with killed_if_interrupted():
        process = start()
    assert process.poll() is None
    assert GATEWAY.Popen is original
    process.communicate()
    assert process.returncode == 0
