"""A process that works in phases and starts each one on request."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

from bench.errors import BenchError

_context: Final = multiprocessing.get_context("spawn")

_Parameters = ParamSpec("_Parameters")
_Report = TypeVar("_Report")


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str


class PhaseTimeoutError(BenchError):
    """A phase did not end in time."""


class PhasedProcess(Generic[_Report]):
    """Runs a generator in a process of its own; each value is the report of a phase.

    The end of the `with` terminates the process.

    Args:
        function: Returns the generator; importable by name. After each value it waits for `go`.
        args: Arguments of the function, pickled.
    """

    def __init__(
        self,
        function: Callable[_Parameters, Iterator[_Report]],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> None:
        self._name = function.__name__
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(
            target=_run, args=(function, theirs, args, kwargs), name=self._name, daemon=True
        )
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, seconds_max: float) -> _Report:
        """Wait for the report of a phase.

        Raises:
            PhaseTimeoutError: The report did not come in this time.
            BenchError: The process failed; the text is its traceback.
        """
        if not self._pipe.poll(seconds_max):
            raise PhaseTimeoutError(f"{self._name} did not end in {seconds_max:.0f} s")
        try:
            received = self._pipe.recv()
        except EOFError:
            raise BenchError(f"{self._name} ended without a report") from None
        if isinstance(received, _Failure):
            raise BenchError(f"{self._name} failed:\n{received.text}")
        report: _Report = received
        return report

    def go(self) -> None:
        """Start the next phase."""
        self._pipe.send(None)

    def stop(self) -> None:
        """Terminate the process."""
        self._process.terminate()
        self._process.join()
        self._pipe.close()


def _run(
    function: Callable[..., Iterator[Any]],
    pipe: Pipe,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    try:
        for report in function(*args, **kwargs):
            pipe.send(report)
            pipe.recv()
    except (KeyboardInterrupt, EOFError):
        pass
    except Exception:  # noqa: BLE001 - the coordinator raises it again
        pipe.send(_Failure(traceback.format_exc()))
