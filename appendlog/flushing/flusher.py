"""The journal's worker: takes write requests off the event loop, reports in rounds.

`Flusher` is the interface; `ThreadFlusher` is the reference implementation. Each round takes
everything submitted so far, so the slower the disk, the larger the rounds, and a request that
comes alone waits for nothing. Requests for one log keep their order; its appends become one.

A round with one log is done in the flusher's thread: one write that carries its sync, one
write of the `end` file. In a round with many logs each is done the same way, several at a time:
the disk puts what they wait for together (a journaling file system commits once for all), and
each log has its own answer. `syncfs` would be one call for all of them, but it says of no file
whether it failed, and waits for whatever else writes to that file system.
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
"""Logs that are written at a time. More only wait for the same disk, and for the interpreter."""


class Flusher(Protocol):
    """Whatever does the writing for the event loop."""

    def start(self) -> None:
        """Begin to work."""

    def submit(self, request: Request) -> None:
        """Take a request; from any thread, never blocks. Its result comes in a round."""

    def close(self) -> None:
        """Do what was submitted, then stop. Blocks until the last round was reported."""


class ThreadFlusher:
    """One thread that appends, with others beside it for many logs and for slow work.

    Args:
        on_round: Called in a worker thread with the results of a round, in the order of
            submission for each log; must be quick and hand them to the event loop. What is
            no append is reported by itself, from other threads.
        parallel_max: Logs that are written at a time, >= 1.
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
        """Take a request; from any thread, never blocks.

        Raises:
            RuntimeError: `close` was called before.
        """
        if self._is_closing:
            raise RuntimeError("flusher is closed")
        self._submitted.put(request)

    def close(self) -> None:
        """Do what was submitted, report it, and end the threads."""
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
        # Behind the appends of their logs. None that comes after a close or a delete of its log
        # can be before it, and to remove what is settled is nothing to an append.
        for other in others:
            self._maintenance.submit(other)

    def _append(self, appends: list[FlushRequest]) -> None:
        waiting = deque(grouped(appends).values())
        results: dict[int, FlushResult] = {}
        helper_count = min(len(waiting), self._parallel_max) - 1
        done = threading.Semaphore(0)

        def help_out() -> None:
            try:
                _work_off(waiting, results)
            finally:
                done.release()

        for _ in range(helper_count):
            self._helpers.submit(help_out)
        _work_off(waiting, results)
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


def _work_off(waiting: deque[list[FlushRequest]], results: dict[int, FlushResult]) -> None:
    """Carry out groups that nobody else has taken, until there are none."""
    while waiting:
        try:
            group = waiting.popleft()
        except IndexError:
            # Another thread took the last one.
            return
        error, _ = carry_out(group)
        for request in group:
            results[id(request)] = FlushResult(request, error)
