"""Worker that takes write requests off the event loop and reports each log's results at once.

`Flusher` is the interface; `ThreadFlusher` is the reference implementation. Each of its threads
writes one log at a time: one write that includes its sync, and one write of the `end` file. What
arrives for a log during that time is its next write. So a slow disk leads to larger writes, and a
single request is written without delay.

`WriteOrder` decides which log a thread writes next, so that a client with one log does not wait for
one with hundreds. The disk combines the syncs of several threads (a journaling file system commits
once for all), and each log has its own result. `syncfs` would be one call for all of them. But it
does not say which file failed, and it waits for all other writes to that file system.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Final, Protocol

from appendlog.flushing.execution import carry_out
from appendlog.flushing.maintenance import Maintenance
from appendlog.flushing.requests import FlushResult, Request
from appendlog.flushing.write_order import Batch, WriteOrder

logger = logging.getLogger("appendlog.flushing.flusher")

PARALLEL_MAX: Final = 8
"""Maximum number of logs of one client written in parallel.

More would only wait for the disk and the GIL.
"""
SPARE_THREADS: Final = 2
"""Threads beside those that one client may use."""

REPORT_SECONDS: Final = 0.005
"""Time for which a thread keeps results while it writes further logs of the same client.

Each report wakes the event loop, which costs as much as a small write.
"""


class Flusher(Protocol):
    """Writes logs on behalf of the event loop."""

    def start(self) -> None:
        """Begin to work."""

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Accept a request, from any thread, without waiting for the disk.

        Args:
            request: Request to carry out; its result arrives later.
            charged_client: Client that the write is charged to; any key. Clients share the disk;
                None is a client as well.
        """

    def close(self) -> None:
        """Finish all submitted requests, then stop. Blocks until the last result is reported."""


class ThreadFlusher:
    """Threads that append, and others for slow requests.

    Args:
        on_results: Called in a worker thread, perhaps in several at a time, with the results of one
            log, in the order of their submission. It must be quick and pass them to the event loop.
        parallel_max: Maximum number of logs of one client that are written in parallel, >= 1.
    """

    def __init__(
        self,
        on_results: Callable[[list[FlushResult]], None],
        parallel_max: int = PARALLEL_MAX,
    ) -> None:
        self._on_results = on_results
        self._maintenance = Maintenance(lambda result: self._report([result]))
        self._submitted: deque[tuple[Request, Hashable]] = deque()
        self._order = WriteOrder(self._maintenance.submit, parallel_max)
        # Guards the order; `submit` does without, because the event loop calls it.
        self._lock = threading.Lock()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._idle_count = 0
        self._is_woken = False
        self._is_closing = False
        self._threads = [
            threading.Thread(target=self._run, name=f"amqp-flusher-{number}", daemon=True)
            for number in range(parallel_max + SPARE_THREADS)
        ]

    def start(self) -> None:
        """Start the threads. They are daemons: a hung disk must not keep the process alive."""
        for thread in self._threads:
            thread.start()

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Accept a request, from any thread, without waiting for the disk.

        Args:
            request: Request to carry out.
            charged_client: Client that the write is charged to.

        Raises:
            RuntimeError: The flusher is closed.
        """
        if self._is_closing:
            raise RuntimeError("flusher is closed")
        self._submitted.append((request, charged_client))
        if self._idle_count and not self._is_woken:
            # One thread takes all that is submitted until it runs, and wakes the others it needs.
            self._is_woken = True
            self._wakes.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether the result of every submitted request has been reported."""
        with self._lock:
            if self._submitted or not self._order.is_empty:
                return False
        return self._maintenance.is_idle

    def close(self) -> None:
        """Finish and report all submitted requests, then end the threads."""
        self._is_closing = True
        self._wakes.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._maintenance.close()

    def _run(self) -> None:
        done: list[Batch] = []
        while (batch := self._next(done)) is not None:
            done = self._write(batch)
            # A thread that waits must keep no log alive.
            del batch

    def _write(self, batch: Batch) -> list[Batch]:
        """Write a batch and perhaps more of its client; return them, reported."""
        began_seconds = perf_counter()
        written = []
        results: list[FlushResult] = []
        more: Batch | None = batch
        while more is not None:
            error, _ = carry_out(more.requests)
            written.append(more)
            results += [FlushResult(request, error) for request in more.requests]
            with self._lock:
                while self._submitted:
                    self._order.add(*self._submitted.popleft())
                has_more = self._order.written(more)
                if has_more and perf_counter() - began_seconds < REPORT_SECONDS:
                    more = self._order.take_more(more)
                else:
                    more = None
        self._report(results)
        return written

    def _next(self, done: list[Batch]) -> Batch | None:
        """Return the next batch, as soon as there is one; None at the end of all work.

        Args:
            done: Batches that this thread has reported; emptied.
        """
        with self._lock:
            while done:
                self._order.done(done.pop())
            # Before the look: a request that is submitted after it wakes a thread.
            self._idle_count += 1
            while True:
                # In this order: a wake that is thrown away stands for a request that is added here,
                # and a request that is submitted while the rest is added wakes a thread again.
                while not self._wakes.empty():
                    # Empty: a thread that waits was faster.
                    with suppress(Empty):
                        self._wakes.get_nowait()
                self._is_woken = False
                while self._submitted:
                    self._order.add(*self._submitted.popleft())
                if (batch := self._order.take()) is not None:
                    break
                if self._is_closing and self._order.is_empty:
                    self._wakes.put(None)
                    return None
                self._lock.release()
                self._wakes.get()
                self._lock.acquire()
            self._idle_count -= 1
            if self._idle_count and self._order.waiting_count and self._order.has_next:
                self._wakes.put(None)
            return batch

    def _report(self, results: list[FlushResult]) -> None:
        try:
            self._on_results(results)
        except Exception:
            logger.exception("flusher results not taken requests=%d", len(results))
