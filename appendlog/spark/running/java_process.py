"""The JVM while it starts: it must not outlive a start that was given up.

Once it runs, it ends with this process: it reads from a pipe that breaks then. Before, it does not
look there, and finds out too late that nobody waits for it: it would stay for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any, Final

from pyspark import java_gateway

# What it starts the JVM with is not among the names that it promises.
_GATEWAY: Final[Any] = java_gateway


@contextmanager
def killed_when_given_up() -> Iterator[None]:
    """Kill what PySpark has started meanwhile, if the block ends with an exception.

    PySpark keeps the process to itself, so the class that it starts it with is exchanged.
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
