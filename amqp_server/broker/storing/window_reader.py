"""Reads messages back that have left the ring: two windows of the log, one of them read ahead.

While one window is delivered, a worker reads the next. Windows of sealed segments are memory
mappings, so they only need memory for their positions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from amqp_server.broker.storing.log_window import LARGE_WINDOW_BYTES, READ_RECORDS, LogWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.window_budget import WindowBudget
    from appendlog import Log, ReadResult

    ReadInWorker = Callable[
        [Callable[[], ReadResult], Callable[[ReadResult | Exception], None]], None
    ]
    """Runs a read in a worker and calls back on the loop; pauses first after a failure."""


class WindowReader:
    """The windows that were last read from one log. The event loop owns it.

    Args:
        log: Log to read.
        read_in_worker: Runs a read in a worker, because the event loop never reads the disk.
        budget: Memory limit for the windows of all readers.

    Attributes:
        reads: Windows read so far.
        failed_reads: Reads that failed; a reader that still needs one asks again.
        windows: Windows in memory, in order, two at most; only the reader changes them.
    """

    def __init__(self, log: Log, read_in_worker: ReadInWorker, budget: WindowBudget) -> None:
        self.reads = 0
        self.failed_reads = 0
        self._log = log
        self._read_in_worker = read_in_worker
        self._budget = budget
        self.windows: deque[LogWindow] = deque()
        self._is_reading = False
        self._is_closed = False
        # Where the window begins that is read ahead; -1 if nobody waits for it any more.
        self._awaited_offset = -1
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def end_offset(self) -> int:
        """End of the offsets in memory (exclusive); 0 if there are none."""
        return self.windows[-1].end if self.windows else 0

    @property
    def held_bytes(self) -> int:
        """Memory that the windows use."""
        return sum(window.held_bytes for window in self.windows)

    @property
    def read_at_seconds(self) -> float:
        """Time at which the last window arrived, by the monotonic clock."""
        return self.windows[-1].read_at_seconds if self.windows else 0.0

    def get(self, start: int, end: int) -> Messages | None:
        """Return the messages from `start` on that are in memory, at most up to `end`, or None.

        They end before the first offset that the log does not have.
        """
        windows = self.windows
        while len(windows) > 1 and start >= windows[1].start:
            windows.popleft()
            self._record_held()
        if not windows or not windows[0].start <= start < windows[0].end:
            return None
        if not windows[0].is_fresh:
            self.clear()
            return None
        return windows[0].find(start, end)

    def begin(self, start: int, arrived: Callable[[int, ReadResult | Exception], None]) -> None:
        """Read from `start` unless a read is under way; call `arrived` on the event loop."""

        def done(result: ReadResult | Exception) -> None:
            if not isinstance(result, Exception):
                self.windows.clear()
                self._take(start, result)
            arrived(start, result)

        self._read(start, done)

    def begin_ahead(self, until: int, arrived: Callable[[], None]) -> None:
        """Read what follows the only window in memory; call `arrived` when the read ends.

        Args:
            until: Offset from which on nothing is read.
            arrived: Called on the event loop, even after a failure. A reader that then misses its
                messages calls `begin`, which reports the reason.
        """
        if self._is_reading or len(self.windows) != 1 or self.windows[0].end >= until:
            return
        if not self._budget.has_room_ahead:
            # It would take the place of a window that another reader waits for.
            return
        start = self.windows[0].end

        def done(result: ReadResult | Exception) -> None:
            if not isinstance(result, Exception) and self._awaited_offset == start:
                self._take(start, result)
            arrived()

        self._awaited_offset = start
        self._read(start, done)

    async def until_read(self) -> None:
        """Return when the read that is under way has arrived; at once if there is none."""
        if self._is_reading:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def clear(self) -> None:
        """Release the windows in memory: the reader goes on elsewhere, or later."""
        self._awaited_offset = -1
        self._release()

    def release_settled(self, ack_floor: int) -> None:
        """Release the windows if all that is in them is settled.

        The consumer has answered before the next window has come, as it may if one large message is
        all that a window has: that one is still awaited.
        """
        if self.windows and ack_floor >= self.end_offset:
            self._release()

    def _release(self) -> None:
        if self.windows:
            self.windows.clear()
            self._record_held()

    def close(self) -> None:
        """Release the windows for good, including the result of a read that is under way.

        Otherwise that result would stay in memory, and deleted files would keep their disk space,
        until all windows together exceed the memory limit.
        """
        self._is_closed = True
        self.clear()

    def _read(self, start: int, done: Callable[[ReadResult | Exception], None]) -> None:
        if self._is_reading:
            return
        self._is_reading = True

        def arrived(result: ReadResult | Exception) -> None:
            self._is_reading = False
            if isinstance(result, Exception):
                self.failed_reads += 1
            else:
                self.reads += 1
            wake(self._waiters)
            done(result)

        expects_large = bool(self.windows) and self.windows[-1].ends_large
        large_bytes = LARGE_WINDOW_BYTES if expects_large and self._budget.has_room_ahead else 0
        self._read_in_worker(
            lambda: self._log.read_window(start, READ_RECORDS, large_bytes=large_bytes), arrived
        )

    def _take(self, start: int, result: ReadResult) -> None:
        if result.parts and not self._is_closed:
            self.windows.append(LogWindow(start, result))
        self._record_held()

    def _record_held(self) -> None:
        self._budget.record(self, self.held_bytes)


def wake(waiters: list[asyncio.Future[None]]) -> None:
    """Complete all waiters and empty the list."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
