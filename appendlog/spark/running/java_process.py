"""The JVM of PySpark: kills it if its start is interrupted, forgets it if it has died.

A running JVM ends with this process, because the pipe that it reads from breaks. While it starts,
it does not read from the pipe yet, and would run for ever.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession, SQLContext

# What starts the JVM, and what remembers it, is not part of PySpark's public names.
_GATEWAY: Final[Any] = java_gateway
_CONTEXT: Final[Any] = SparkContext
_SESSION: Final[Any] = SparkSession
_SQL: Final[Any] = SQLContext
_LOST_CALL: Final = "Exception while sending command."
"""What py4j gives to the root logger, which prints it with a traceback."""


@contextmanager
def killed_if_interrupted() -> Iterator[None]:
    """Kill the processes that PySpark has started in the block, if the block raises.

    PySpark does not give access to the process, so this replaces the class that starts it.
    """
    started: list[Popen[bytes]] = []

    class _Noted(Popen[bytes]):
        def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as Popen
            super().__init__(*arguments, **named)
            started.append(self)

    original = _GATEWAY.Popen
    _GATEWAY.Popen = _Noted
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        _GATEWAY.Popen = original


def expect_lost_java(context: SparkContext) -> None:
    """Let nothing print a traceback when the JVM has gone from its connections.

    Neither the server of accumulators does, nor a call that was under way. What follows from the
    call reports that the JVM has died.
    """
    # Added once, however many sessions there are.
    logging.getLogger().addFilter(_is_no_lost_call)
    server: Any = context._accumulatorServer
    print_error = server.handle_error

    def handle_error(request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            print_error(request, client_address)

    server.handle_error = handle_error


def _is_no_lost_call(record: logging.LogRecord) -> bool:
    """Return False for what py4j logs of a lost connection, beside the error that it raises."""
    return not record.msg.startswith(_LOST_CALL) if isinstance(record.msg, str) else True


def is_java_running() -> bool:
    """Return whether the JVM that this process has started runs."""
    gateway = _CONTEXT._gateway
    process = getattr(gateway, "proc", None)
    return gateway is not None and (process is None or process.poll() is None)


def forget_java(context: SparkContext) -> None:
    """Release what is left of a JVM that has died, so that the next session starts another one.

    PySpark itself would call the dead JVM for ever, also to stop.

    Args:
        context: Context that ran in it; cannot be used any more.
    """
    gateway = _CONTEXT._gateway
    of_context: Any = context
    of_context._jsc = None
    if of_context._accumulatorServer is not None:
        of_context._accumulatorServer.shutdown()
        of_context._accumulatorServer = None
    if gateway is not None:
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
    _CONTEXT._gateway = _CONTEXT._jvm = None
    _CONTEXT._active_spark_context = None
    _SESSION._instantiatedSession = _SESSION._activeSession = None
    _SQL._instantiatedContext = None
