"""The JVM of PySpark, with other processes in its place: one given up is gone, one lost is told."""

import logging
import socket
import subprocess
import sys
import threading
from typing import Any, Final

import pytest
from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
from py4j.protocol import ERROR  # type: ignore[import-untyped]
from pyspark import java_gateway

from appendlog.spark.running.java_process import expect_lost_java, killed_if_interrupted

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


class _Context:
    """What `expect_lost_java` asks of a context: its server of accumulators."""

    class _accumulatorServer:  # noqa: N801 - PySpark's name
        handle_error = None


def lose_call() -> object:
    """Return what a call gets whose JVM dies when it has taken it."""
    with socket.create_server(("127.0.0.1", 0)) as java:

        def die() -> None:
            connection, _ = java.accept()
            with connection:
                connection.recv(1)

        dying = threading.Thread(target=die)
        dying.start()
        client = GatewayClient(port=java.getsockname()[1])
        answer = client.send_command("c\no1\nversion\ne\n", retry=False)
        dying.join()
        return answer


def test_a_call_whose_jvm_dies_is_an_error_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = logging.getLogger()
    filters = root.filters.copy()
    assert lose_call() == ERROR
    # What py4j does alone.
    assert len(caplog.records) == 1
    caplog.clear()
    context: Any = _Context()
    expect_lost_java(context)
    try:
        assert lose_call() == ERROR
        assert caplog.records == []
        root.warning("another line")
        assert len(caplog.records) == 1
    finally:
        root.filters = filters
