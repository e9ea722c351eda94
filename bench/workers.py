"""The worker processes of one run, and the look at the run while they work."""

import multiprocessing.connection
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from bench.process_stats import ServerProbe
from bench.worker import StartLine, Worker

_SAMPLE_SECONDS: Final = 0.1

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Workers:
    """Starts workers and waits for them; stops all of them at the end of its `with`.

    Args:
        look: Called ten times a second during `wait_for`.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._workers: list[Worker[Any]] = []
        self._results: dict[Worker[Any], Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def start(
        self,
        function: Callable[Concatenate[StartLine, _Parameters], _Result],
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> Worker[_Result]:
        """Start a worker and wait until it is ready; arguments and errors as for `Worker`."""
        worker = Worker(function, *args, **kwargs)
        self._workers.append(worker)
        return worker

    def wait_for(self, worker: Worker[_Result]) -> _Result:
        """Wait for a worker's result.

        Raises:
            BenchError: This worker failed, or another one, on which the result may depend.
        """
        while worker not in self._results:
            pipes = [each.pipe for each in self._workers if not each.pipe.closed]
            ready = multiprocessing.connection.wait(pipes, _SAMPLE_SECONDS)
            self._look()
            for each in self._workers:
                if each.pipe in ready:
                    self._results[each] = each.take_result()
        result: _Result = self._results[worker]
        return result


def run_alone(
    probe: ServerProbe,
    function: Callable[Concatenate[StartLine, _Parameters], _Result],
    /,
    *args: _Parameters.args,
    **kwargs: _Parameters.kwargs,
) -> _Result:
    """Run a single worker and return its result; the server's CPU counts from the worker's start.

    Args:
        probe: Probe of the server; samples the server's memory while the worker runs.
        function: Function of the worker, as for `Worker`.
        args: Other arguments of the function.
        kwargs: The same, by name.

    Raises:
        BenchError: The worker failed.
    """
    with Workers(probe.sample) as workers:
        worker = workers.start(function, *args, **kwargs)
        probe.start()
        worker.go()
        return workers.wait_for(worker)
