"""Worker that takes write requests off the event loop and reports their results in rounds.

`Flusher` is the interface; `ThreadFlusher` is the reference implementation. Each round takes all
requests submitted so far. So a slow disk leads to larger rounds, and a single request is written
without delay. Requests for one log keep their order; its appends are merged into one.

The flusher's own thread writes a round with one log: one write that includes its sync, and one
write of the `end` file. In a round with many logs, several threads do the same for one log each.
The disk combines their syncs (a journaling file system commits once for all), and each log has its
own result. `syncfs` would be one call for all of them. But it does not say which file failed, and
it waits for all other writes to that file system.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from appendlog.flushing.carrying_out import carry_out
from appendlog.flushing.maintenance import Maintenance
from appendlog.flushing.requests import FlushRequest, FlushResult, MaintenanceRequest, Request
from appendlog.flushing.worker_threads import WorkerThreads
from appendlog.log import Log

logger = logging.getLogger(__name__)

PARALLEL_MAX: Final = 8
"""Maximum number of logs written in parallel. More would only wait for the disk and the GIL."""


class Flusher(Protocol):
    """Writes logs on behalf of the event loop."""

    def start(self) -> None:
        """Begin to work."""

    def submit(self, request: Request) -> None:
        """Accept a request, from any thread, without blocking. Its result arrives with a round."""

    def close(self) -> None:
        """Finish all submitted requests, then stop. Blocks until the last round is reported."""


class ThreadFlusher:
    """A thread that appends, with more threads for many logs and for slow requests.

    Args:
        on_round: Called in a worker thread with the results of a round, in the order of
            submission for each log. It must be quick and pass them to the event loop. Other
            requests than appends are reported one by one, from other threads.
        parallel_max: Maximum number of logs written in parallel, >= 1.
    """

    def __init__(
        self,
        on_round: Callable[[list[FlushResult]], None],
        parallel_max: int = PARALLEL_MAX,
    ) -> None:
        self._on_round = on_round
        self._submitted: SimpleQueue[Request | None] = SimpleQueue()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="amqp-flusher", daemon=True)
        self._parallel_max = parallel_max
        self._helpers = WorkerThreads("amqp-flusher", parallel_max - 1)
        self._maintenance = Maintenance(lambda result: self._report([result]))

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Accept a request, from any thread, without blocking.

        Raises:
            RuntimeError: The flusher is closed.
        """
        if self._is_closing:
            raise RuntimeError("flusher is closed")
        self._submitted.put(request)

    def close(self) -> None:
        """Finish and report all submitted requests, then end the threads."""
        self._is_closing = True
        self._submitted.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            taken = [self._submitted.get()]
            with suppress(Empty):
                while True:
                    taken.append(self._submitted.get_nowait())
            is_open = None not in taken
            requests = [request for request in taken if request is not None]
            if requests:
                self._round(requests)
        self._helpers.close()
        self._maintenance.close()

    def _round(self, requests: list[Request]) -> None:
        appends: list[FlushRequest] = []
        others: list[MaintenanceRequest] = []
        for request in requests:
            if isinstance(request, FlushRequest):
                appends.append(request)
            else:
                others.append(request)
        if appends:
            self._append(appends)
        # After the appends of their logs. A request that follows a close or a delete of its log
        # never arrives before it, and an append does not depend on the removal of settled segments.
        for other in others:
            self._maintenance.submit(other)

    def _append(self, appends: list[FlushRequest]) -> None:
        waiting = deque(grouped(appends).values())
        results: dict[int, FlushResult] = {}
        helper_count = min(len(waiting), self._parallel_max) - 1
        done = threading.Semaphore(0)

        def help_run() -> None:
            try:
                _run_groups(waiting, results)
            finally:
                done.release()

        for _ in range(helper_count):
            self._helpers.submit(help_run)
        _run_groups(waiting, results)
        for _ in range(helper_count):
            done.acquire()
        self._report([results[id(request)] for request in appends])

    def _report(self, results: list[FlushResult]) -> None:
        try:
            self._on_round(results)
        except Exception:
            logger.exception("flusher round not taken requests=%d", len(results))


def grouped(appends: Sequence[FlushRequest]) -> dict[Log, list[FlushRequest]]:
    """Return the appends of each log, in their order."""
    groups: dict[Log, list[FlushRequest]] = {}
    for request in appends:
        groups.setdefault(request.log, []).append(request)
    return groups


def _run_groups(waiting: deque[list[FlushRequest]], results: dict[int, FlushResult]) -> None:
    """Carry out groups that no other thread has taken, until there are none left."""
    while waiting:
        try:
            group = waiting.popleft()
        except IndexError:
            # Another thread took the last group.
            return
        error, _ = carry_out(group)
        for request in group:
            results[id(request)] = FlushResult(request, error)
