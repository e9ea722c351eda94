"""Publishers and consumers as processes of their own: start line, shared counters, result."""

import multiprocessing
import time
import traceback
from collections.abc import Callable
from ctypes import c_int64
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.sharedctypes import RawValue
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from bench.errors import BenchError

START_SECONDS_MAX: Final = 120
UNKNOWN: Final = -1

_context: Final = multiprocessing.get_context("spawn")

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str


class Counters:
    """Numbers in shared memory that workers write and the coordinator reads while they run.

    Each has one writer, so they need no lock. A plain shared integer costs a worker 50 ns for
    each read or write of its socket.

    Attributes:
        published: Messages sent so far; the publisher's worker writes it.
        received: Messages received so far; the consumer's worker writes it.
        expected: Messages to receive; the coordinator writes it, and it is UNKNOWN before.
    """

    def __init__(self) -> None:
        self.published = RawValue(c_int64, 0)
        self.received = RawValue(c_int64, 0)
        self.expected = RawValue(c_int64, UNKNOWN)


class StartLine:
    """Place where a worker waits, connected and ready, until all workers are ready.

    Args:
        pipe: The worker's end of the pipe to the coordinator.
    """

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._cpu_seconds_at_start = 0.0

    def wait(self) -> None:
        """Report that this worker is ready, and return when the run starts."""
        self._pipe.send(None)
        self._pipe.recv()
        self._cpu_seconds_at_start = time.process_time()

    def cpu_seconds(self) -> float:
        """Return the CPU that this worker has used since the start of the run."""
        return time.process_time() - self._cpu_seconds_at_start


class Worker(Generic[_Result]):
    """A process that runs one function; `go` starts the run.

    Attributes:
        pipe: Becomes readable when the result is there, for `multiprocessing.connection.wait`.
    """

    def __init__(
        self,
        function: Callable[Concatenate[StartLine, _Parameters], _Result],
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> None:
        """Start the process and wait until it is at its start line.

        Args:
            function: Called in the process with its `StartLine`; importable by name.
            args: Other arguments, pickled; `Counters` are shared instead.
            kwargs: The same, by name.

        Raises:
            BenchError: The function failed, or was not ready within START_SECONDS_MAX.
        """
        self.pipe, theirs = _context.Pipe()
        self._name = function.__name__
        # The process object forgets its arguments. Without a reference here, the memory of the
        # counters would be freed, and the counters of the next worker would share it.
        self._arguments = (args, kwargs)
        self._process = _context.Process(
            target=_run, args=(function, theirs, args, kwargs), name=self._name, daemon=True
        )
        self._process.start()
        theirs.close()
        if not self.pipe.poll(START_SECONDS_MAX):
            self.stop()
            raise BenchError(f"{self._name} was not ready after {START_SECONDS_MAX} s")
        self._receive()

    def go(self) -> None:
        """Start the run."""
        self.pipe.send(None)

    def take_result(self) -> _Result:
        """Wait for the result; the process has ended when this returns.

        Raises:
            BenchError: The worker failed; the text is its traceback.
        """
        result: _Result = self._receive()
        self._process.join()
        self.pipe.close()
        return result

    def stop(self) -> None:
        """Terminate the process; does nothing if it has ended."""
        self._process.terminate()
        self._process.join()
        self.pipe.close()

    def _receive(self) -> Any:  # noqa: ANN401 - a pipe has no static type
        try:
            received = self.pipe.recv()
        except EOFError:
            self.stop()
            raise BenchError(f"{self._name} ended without a result") from None
        if isinstance(received, _Failure):
            self.stop()
            raise BenchError(f"{self._name} failed:\n{received.text}")
        return received


def _run(
    function: Callable[..., object], pipe: Pipe, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    try:
        pipe.send(function(StartLine(pipe), *args, **kwargs))
    except KeyboardInterrupt:
        pass
    except Exception:  # noqa: BLE001 - the coordinator raises it again
        pipe.send(_Failure(traceback.format_exc()))
