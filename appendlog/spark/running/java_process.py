"""Kills the JVM if its start is interrupted.

A running JVM ends with this process, because the pipe that it reads from breaks. While it starts,
it does not read from the pipe yet, and would run for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any, Final

from pyspark import java_gateway

# The class that starts the JVM is not part of PySpark's public names.
_GATEWAY: Final[Any] = java_gateway


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
