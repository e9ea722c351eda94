"""Windows of one log that all its readers share.

A fresh window serves every reader that reaches its offsets. So ten consumers that follow each
other through a log cost one read. A reader waits for an offset that lies in no window. If a read
under way is likely to return that offset, it waits for this read; otherwise a new read starts when
one of the few parallel reads is free, in the order of the requests.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.storing.log_window import (
    LARGE_WINDOW_BYTES,
    READ_RECORDS,
    SMALL_WINDOW_BYTES,
    LogWindow,
)

if TYPE_CHECKING:
    from amqp_server.broker.storing.window_budget import WindowBudget
    from amqp_server.broker.storing.window_reader import ReadInWorker
    from appendlog import Log, ReadResult

logger = logging.getLogger("amqp_server.broker.storing.shared_windows")

READS_MAX = 4
"""Reads of one log that run at the same time."""


class WindowReader(Protocol):
    """Reader that waits for an offset of a log."""

    def window_arrived(self) -> None:
        """Look the offset up again, and ask again if it is missing: the read may have failed."""


class SharedWindows:
    """The shared windows of one log. The event loop owns them.

    Args:
        log: Log that the windows show.
        read_in_worker: Runs a read in a worker, because the event loop never reads the disk.
        budget: Memory limit for the windows of all logs.

    Attributes:
        reads: Windows read so far.
        failed_reads: Reads that failed; a reader that still needs one repeats it.
    """

    def __init__(self, log: Log, read_in_worker: ReadInWorker, budget: WindowBudget) -> None:
        self.reads = 0
        self.failed_reads = 0
        self._log = log
        self._read_in_worker = read_in_worker
        self._budget = budget
        self._is_closed = False
        self._windows: dict[int, _SharedWindow] = {}
        # Start offsets of the windows, ascending. Windows may overlap.
        self._starts: list[int] = []
        self._under_way: dict[int, _Read] = {}
        # Dicts keep the order: the reader that asked first is served first.
        self._waiting: dict[WindowReader, int] = {}
        self._likely_records = 1
        self._expects_large = False

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._windows)

    @property
    def held_bytes(self) -> int:
        """Memory that the windows use."""
        return sum(window.held_bytes for window in self._windows.values())

    def at(self, offset: int) -> LogWindow | None:
        """Return a fresh window that contains an offset, or None."""
        window = self._covering(offset)
        if window is not None:
            self._budget.use(window)
        return window

    def ask(self, offset: int, reader: WindowReader) -> None:
        """Read an offset that lies in no window, and notify the reader when it arrives.

        A reader waits for one offset at a time: the last one that it asked for.
        """
        self.forget(reader)
        if not self._is_closed:
            self._wait(offset, reader)
            self._begin_reads()

    def ask_ahead(self, offset: int) -> None:
        """Read an offset that will be needed soon, unless that delays a waiting reader."""
        if (
            not self._waiting
            and len(self._under_way) < READS_MAX
            and self._budget.has_room_ahead
            and self._read_for(offset) is None
            and self._covering(offset) is None
        ):
            self._begin(offset)

    def forget(self, reader: WindowReader) -> None:
        """Stop notifying a reader."""
        self._waiting.pop(reader, None)
        for read in self._under_way.values():
            read.waiting.pop(reader, None)

    def clear(self) -> None:
        """Release all windows; waiting readers are still notified."""
        for window in list(self._windows.values()):
            window.clear()

    def close(self) -> None:
        """Release all windows for good: no reader is notified, and no window is kept any more."""
        self._is_closed = True
        self._waiting.clear()
        self._under_way.clear()
        self.clear()

    def drop(self, window: _SharedWindow) -> None:
        """Release one window."""
        if self._windows.get(window.start) is window:
            del self._windows[window.start]
            del self._starts[bisect_left(self._starts, window.start)]
            self._budget.record(window, 0)

    def _covering(self, offset: int) -> _SharedWindow | None:
        # Most windows end where the next begins. Where two overlap, the earlier may end later.
        last = bisect_right(self._starts, offset)
        for start in reversed(self._starts[max(last - 2, 0) : last]):
            window = self._windows[start]
            if not window.is_fresh:
                window.clear()
            elif offset < window.end:
                return window
        return None

    def _read_for(self, offset: int) -> _Read | None:
        """Return a read under way that is likely to return an offset."""
        for start, read in self._under_way.items():
            if start <= offset < start + self._likely_records:
                return read
        return None

    def _wait(self, offset: int, reader: WindowReader) -> None:
        read = self._read_for(offset)
        waiting = self._waiting if read is None else read.waiting
        waiting[reader] = offset

    def _begin_reads(self) -> None:
        """Start as many reads as allowed, and notify readers whose offset is already there."""
        while self._waiting and len(self._under_way) < READS_MAX:
            reader, offset = next(iter(self._waiting.items()))
            del self._waiting[reader]
            if self._covering(offset) is not None:
                reader.window_arrived()
                continue
            read = self._read_for(offset) or self._begin(offset)
            read.waiting[reader] = offset

    def _begin(self, offset: int) -> _Read:
        read = self._under_way[offset] = _Read()

        def arrived(result: ReadResult | Exception) -> None:
            if self._under_way.get(offset) is read:
                del self._under_way[offset]
                self._arrived(offset, result, read)

        log = self._log
        if self._budget.has_room_ahead:
            large_bytes = LARGE_WINDOW_BYTES if self._expects_large else 0
            self._read_in_worker(
                lambda: log.read_window(offset, READ_RECORDS, large_bytes=large_bytes), arrived
            )
        else:
            # Many readers are at different positions: with smaller windows more of them fit.
            self._read_in_worker(
                lambda: log.read_window(offset, READ_RECORDS, SMALL_WINDOW_BYTES), arrived
            )
        return read

    def _arrived(self, start: int, result: ReadResult | Exception, read: _Read) -> None:
        end = start
        if isinstance(result, Exception):
            self.failed_reads += 1
            path = self._log.directory
            logger.error("read failed path=%s offset=%d error=%s", path, start, result)
        else:
            self.reads += 1
            end = result.next_offset
            self._take(start, result)
        waiting, self._waiting = self._waiting, {}
        for reader, offset in read.waiting.items():
            if start < offset and offset >= end:
                # The read ended before the expected offset: read that one next, by itself.
                self._waiting[reader] = offset
                self._likely_records = 1
            else:
                reader.window_arrived()
        self._waiting |= waiting
        self._begin_reads()

    def _take(self, start: int, result: ReadResult) -> None:
        if result.next_offset <= start:
            return
        before = self._windows.get(start)
        if before is not None:
            before.clear()
        window = self._windows[start] = _SharedWindow(self, start, result)
        self._expects_large = window.ends_large
        insort(self._starts, start)
        # Expect only half of it, as the next window may be shorter: a reader that waits for
        # the wrong read waits twice.
        self._likely_records = max(1, (window.end - start) // 2)
        self._budget.record(window, window.held_bytes)


class _Read:
    """A read that is under way, and the readers that wait for it."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[WindowReader, int] = {}


class _SharedWindow(LogWindow):
    """A window in `SharedWindows`."""

    __slots__ = ("_owner",)

    def __init__(self, owner: SharedWindows, start: int, result: ReadResult) -> None:
        super().__init__(start, result)
        self._owner = owner

    def clear(self) -> None:
        """Release the window."""
        self._owner.drop(self)
