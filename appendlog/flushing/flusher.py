"""Worker that takes write requests off the event loop and reports each log's results at once.

The event loop owns a `Flusher`: it decides what is written next, and takes in what is done.
`WriteOrder` decides, so that a client with one log does not wait for one with hundreds. A log is
written by one thread at a time. What arrives for a log during that time is its next write. So a
slow disk leads to larger writes, and a single request is written without delay.

Most appends are one write that includes its sync, and one write of the `end` file. The loop
prepares those, and threads that need no interpreter write them (`write_threads`). So neither waits
for the other to give up the interpreter's lock. Interpreted threads make all other appends.

The disk combines the syncs of several threads (a journaling file system commits once for all), and
each log has its own result. `syncfs` would be one call for all of them. But it does not say which
file failed, and it waits for all other writes to that file system.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, NamedTuple

from appendlog.errors import LogFailedError
from appendlog.files.operation import Operation
from appendlog.flushing.bell import Bell
from appendlog.flushing.execution import carry_out, complete, prepare, write_prepared
from appendlog.flushing.maintenance import Maintenance
from appendlog.flushing.requests import FlushResult, MaintenanceRequest, Request
from appendlog.flushing.worker_threads import WorkerThreads
from appendlog.flushing.write_order import Batch, WriteOrder
from appendlog.flushing.write_threads import WriteThreads, write_threads
from appendlog.segments.segment_write import SegmentWrite

logger = logging.getLogger("appendlog.flushing.flusher")

PARALLEL_MAX: Final = 8
"""Maximum number of logs of one client written in parallel.

More would only wait for the disk and the GIL.
"""
SPARE_THREADS: Final = 2
"""Threads beside those that one client may use."""


class Written(NamedTuple):
    """A batch that a thread has carried out.

    Attributes:
        batch: The batch.
        write: What was prepared, with its result, or None if the thread made the appends.
        error: The failure of the log, if the thread made the appends.
    """

    batch: Batch
    write: SegmentWrite | None
    error: LogFailedError | None


class Flusher:
    """Writes logs on behalf of the thread that owns it, which calls all its methods.

    Args:
        on_results: Called by the owner's thread with results; those of each log are in the order of
            their submission.
        parallel_max: Maximum number of logs of one client that are written in parallel, >= 1.
    """

    def __init__(
        self, on_results: Callable[[list[FlushResult]], None], parallel_max: int = PARALLEL_MAX
    ) -> None:
        self._on_results = on_results
        self._threads_max = parallel_max + SPARE_THREADS
        self._maintenance = Maintenance(self._note_maintained)
        self._order = WriteOrder(self._maintain, parallel_max)
        self._workers = WorkerThreads("amqp-flusher", self._threads_max)
        self._write_threads: WriteThreads | None = None
        self._bell: Bell | None = None
        self._writing_count = 0
        self._maintaining_count = 0
        # Batches that a write thread has.
        self._by_write: dict[SegmentWrite, Batch] = {}
        # Filled by other threads.
        self._written: deque[Written] = deque()
        self._maintained: deque[FlushResult] = deque()
        self._is_closing = False
        self._on_closed: Callable[[], None] | None = None

    def start(self, watch: Callable[[int, Callable[[], None]], object]) -> None:
        """Begin with what was submitted.

        Args:
            watch: Called with a descriptor, and with what the owner is to call whenever that is
                readable, until the flusher is closed: `add_reader` of an event loop.

        Raises:
            OSError: The system has no thread or no file left; the flusher is not started.
            RuntimeError: The same of an interpreted thread.
        """
        bell, threads = Bell(), None
        try:
            threads = write_threads(self._threads_max, bell.ringing_fileno)
            self._workers.start()
            self._maintenance.start()
        except BaseException:
            if threads is not None:
                threads.close()
            self._workers.close()
            bell.close()
            raise
        self._bell, self._ring, self._write_threads = bell, bell.ring, threads
        watch(bell.fileno, self._take_done)
        self._begin_writes()

    @property
    def fileno(self) -> int:
        """The descriptor that is watched; -1 before the start."""
        return -1 if self._bell is None else self._bell.fileno

    def submit(self, request: Request, charged_client: Hashable = None) -> None:
        """Accept a request, without waiting for the disk; its result arrives later.

        Args:
            request: Request to carry out.
            charged_client: Client that the write is charged to; any key. Clients share the disk;
                None is a client as well.

        Raises:
            RuntimeError: The flusher is closed.
        """
        if self._is_closing:
            raise RuntimeError("flusher is closed")
        self._order.add(request, charged_client)
        if self._writing_count < self._threads_max:
            self._begin_writes()

    @property
    def is_idle(self) -> bool:
        """Whether the result of every submitted request has been reported."""
        return self._order.is_empty and not self._maintaining_count

    def under_way(self) -> list[Operation]:
        """Return the writes that a kernel has begun and not done; any thread may ask."""
        if self._write_threads is None:
            return []
        # A copy is made at once, while a loop might meet a change. First the copy: what is done
        # may be taken at any time.
        begun = self._by_write.copy()
        done = set(self._write_threads.written())
        return [Operation(each.number, "pwritev", each.path) for each in begun if each not in done]

    def close(self, on_closed: Callable[[], None]) -> None:
        """Accept nothing more; finish and report what was submitted, then end the threads.

        What was submitted to a flusher that was never started is dropped.

        Args:
            on_closed: Called when that is done, perhaps before this returns. Afterwards the
                descriptor must not be watched any more.
        """
        self._is_closing = True
        self._on_closed = on_closed
        self._end_if_idle()

    def _begin_writes(self) -> None:
        """Begin the writes whose turn it is, as long as threads are free for them."""
        if self._bell is None:
            return
        order = self._order
        while order.waiting_count and self._writing_count < self._threads_max:
            batch = order.take()
            if batch is None:
                return
            self._writing_count += 1
            write = prepare(batch.requests)
            if write is None:
                self._workers.submit(partial(self._carry_out, batch))
            elif self._write_threads is not None and write.filesystem.writes_natively:
                self._by_write[write] = batch
                self._write_threads.submit(write)
            else:
                self._workers.submit(partial(self._carry_out_prepared, batch, write))

    def _carry_out(self, batch: Batch) -> None:
        """In the thread of a worker: make a batch's appends."""
        error, _ = carry_out(batch.requests)
        self._written.append(Written(batch, None, error))
        self._ring()

    def _carry_out_prepared(self, batch: Batch, write: SegmentWrite) -> None:
        """In the thread of a worker: write what was prepared."""
        write_prepared(write)
        self._written.append(Written(batch, write, None))
        self._ring()

    def _maintain(self, request: MaintenanceRequest) -> None:
        self._maintaining_count += 1
        self._maintenance.submit(request)

    def _note_maintained(self, result: FlushResult) -> None:
        """In a thread of the maintenance: hand a result to the owner."""
        self._maintained.append(result)
        self._ring()

    def _take_done(self) -> None:
        """Take in and report what is done, and begin further writes."""
        assert self._bell is not None, "nothing is done before the start"
        self._bell.clear()
        arrived: list[Written] = []
        if self._write_threads is not None:
            taken = self._write_threads.take()
            arrived += [Written(self._by_write.pop(write), write, None) for write in taken]
        while self._written:
            arrived.append(self._written.popleft())
        results: list[FlushResult] = []
        done = []
        for batch, prepared, error in arrived:
            if prepared is not None:
                if prepared.is_refused:
                    batch.log.abandon(prepared)
                    self._workers.submit(partial(self._carry_out, batch))
                    continue
                error = complete(batch.log, prepared)
            self._writing_count -= 1
            self._order.written(batch)
            done.append(batch)
            results += [FlushResult(request, error) for request in batch.requests]
        while self._maintained:
            results.append(self._maintained.popleft())
            self._maintaining_count -= 1
        if results:
            self._report(results)
        # The requests behind a batch go on because its results are reported.
        for batch in done:
            self._order.done(batch)
        self._begin_writes()
        if self._is_closing:
            self._end_if_idle()

    def _report(self, results: list[FlushResult]) -> None:
        try:
            self._on_results(results)
        except Exception:
            logger.exception("flusher results not taken requests=%d", len(results))

    def _end_if_idle(self) -> None:
        """End the threads, if this is closing and nothing is left to report."""
        if self._on_closed is None or not (self._bell is None or self.is_idle):
            return
        on_closed, self._on_closed = self._on_closed, None
        if self._bell is None:
            on_closed()
            return
        self._maintenance.close()
        self._workers.close()
        if self._write_threads is not None:
            self._write_threads.close()
        on_closed()
        self._bell.close()
