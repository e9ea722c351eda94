"""Slow requests on a log's files: removing segments, closing, deleting.

Removing the directory of a long queue takes seconds. Other queues need their confirms during that
time, so the flusher's own thread does none of this. Requests for one log keep their order;
requests for other logs overtake them.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from appendlog.flushing.execution import carry_out
from appendlog.flushing.requests import FlushResult, MaintenanceRequest
from appendlog.flushing.worker_threads import WorkerThreads
from appendlog.log import Log

THREADS_MAX: Final = 2


class Maintenance:
    """Executor of all requests other than appends, in threads of its own.

    Args:
        on_done: Called in one of the threads with a result.
    """

    def __init__(self, on_done: Callable[[FlushResult], None]) -> None:
        self._on_done = on_done
        self._lock = threading.Lock()
        self._waiting: dict[Log, deque[MaintenanceRequest]] = {}
        self._is_idle = threading.Condition(self._lock)
        self._threads = WorkerThreads("amqp-maintenance", THREADS_MAX)

    def start(self) -> None:
        """Begin with what was submitted.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._threads.start()

    def submit(self, request: MaintenanceRequest) -> None:
        """Accept a request; called by one thread at a time."""
        log = request.log
        with self._lock:
            waiting = self._waiting.setdefault(log, deque())
            waiting.append(request)
            if len(waiting) > 1:
                return
        self._threads.submit(lambda: self._run(log))

    def close(self) -> None:
        """Wait until all submitted requests are done; only after the start."""
        with self._is_idle:
            self._is_idle.wait_for(lambda: not self._waiting)
        self._threads.close()

    def _run(self, log: Log) -> None:
        """Carry out the waiting requests of one log until there are none."""
        waiting = self._waiting[log]
        while waiting:
            request = waiting[0]
            error, freed_bytes = carry_out([request])
            self._on_done(FlushResult(request, error, freed_bytes))
            with self._lock:
                waiting.popleft()
                if not waiting:
                    del self._waiting[log]
                    self._is_idle.notify_all()
                    return
