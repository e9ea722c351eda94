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

START_SECONDS_MAX: Final = 60
UNKNOWN: Final = -1

_context: Final = multiprocessing.get_context("spawn")

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str


class Counters:
    """Numbers that workers write and the coordinator reads while they run; no lock needed.

    Each has one writer. A plain shared integer costs a worker 50 ns, once for each read or write
    of its socket.

    Attributes:
        published: Messages sent so far, by the publisher's worker.
        received: Messages received so far, by the consumer's worker.
        expected: Messages to receive in all, by the coordinator; UNKNOWN until it is known.
    """

    def __init__(self) -> None:
        self.published = RawValue(c_int64, 0)
        self.received = RawValue(c_int64, 0)
        self.expected = RawValue(c_int64, UNKNOWN)


class StartLine:
    """Where a worker waits, connected and ready, until all others are too."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._cpu_seconds_at_start = 0.0

    def wait(self) -> None:
        """Say that this worker is ready, and return when the run starts."""
        self._pipe.send(None)
        self._pipe.recv()
        self._cpu_seconds_at_start = time.process_time()

    def cpu_seconds(self) -> float:
        """CPU that this worker has used since the start of the run."""
        return time.process_time() - self._cpu_seconds_at_start


class Worker(Generic[_Result]):
    """A process that runs one function; made ready at once, started by `go`.

    Attributes:
        pipe: What becomes readable when the result is there, for `multiprocessing.connection.wait`.
    """

    def __init__(
        self,
        function: Callable[Concatenate[StartLine, _Parameters], _Result],
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> None:
        """Start the process and wait until it stands at its start line.

        Args:
            function: Called in the process with its `StartLine`; importable by name.
            args: Its other arguments; pickled, save the `Counters`.
            kwargs: The same, by name.

        Raises:
            BenchError: It failed, or was not ready within START_SECONDS_MAX.
        """
        self.pipe, theirs = _context.Pipe()
        self._name = function.__name__
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
        """Let it run."""
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
        """End the process, whatever it is doing; does nothing when it has ended."""
        self._process.terminate()
        self._process.join()
        self.pipe.close()

    def _receive(self) -> Any:  # noqa: ANN401 - what a pipe brings has no static type
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
    except Exception:  # noqa: BLE001 - it goes on in the coordinator, which raises it
        pipe.send(_Failure(traceback.format_exc()))
