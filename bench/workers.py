"""The workers of one run together, and what is looked at while they work."""

import multiprocessing.connection
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from bench.worker import StartLine, Worker

_SAMPLE_SECONDS: Final = 0.1

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Workers:
    """Starts workers and waits for them; ends them all when its `with` ends, however it ends."""

    def __init__(self, look: Callable[[], None]) -> None:
        """Hire nobody yet.

        Args:
            look: Called ten times a second during `wait_for`.
        """
        self._look = look
        self._workers: list[Worker[Any]] = []

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
        """Start a worker and wait until it is ready; as `Worker`."""
        worker = Worker(function, *args, **kwargs)
        self._workers.append(worker)
        return worker

    def wait_for(self, worker: Worker[_Result]) -> _Result:
        """Wait for a worker's result.

        Raises:
            BenchError: This worker failed, or another one did: the result may depend on it.
        """
        while True:
            pipes = [each.pipe for each in self._workers if not each.pipe.closed]
            ready = multiprocessing.connection.wait(pipes, _SAMPLE_SECONDS)
            self._look()
            if worker.pipe in ready:
                return worker.take_result()
            for each in self._workers:
                if each.pipe in ready:
                    each.take_result()
