"""Windows of one log that all its readers share, wherever they are.

What one reader has had read serves all that come by while it is fresh: ten consumers that follow
each other through a log cost the reading of one. A place that lies in no window is waited for, in
the order of asking; a few reads are under way at a time. Who waits for a place that a read is
likely to bring waits for that read.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.storing.log_window import READ_RECORDS, SMALL_WINDOW_BYTES, LogWindow

if TYPE_CHECKING:
    from amqp_server.broker.storing.window_budget import WindowBudget
    from amqp_server.broker.storing.window_reader import ReadInWorker
    from appendlog import Log, ReadResult

logger = logging.getLogger(__name__)

READS_MAX = 4
"""Reads of one log that are under way at a time."""


class WindowReader(Protocol):
    """Who waits for a place in a log."""

    def window_arrived(self) -> None:
        """It has been read, or could not be: look again, and ask again if it is not there."""


class SharedWindows:
    """The windows of one log. The event loop owns them.

    Args:
        log: Where to read.
        read_in_worker: The disk is never read on the loop.
        held: Bounds what all logs of the server hold.

    Attributes:
        reads: How many windows were read.
        failed_reads: How many could not be read; each is repeated while somebody waits for it.
    """

    def __init__(self, log: Log, read_in_worker: ReadInWorker, held: WindowBudget) -> None:
        self.reads = 0
        self.failed_reads = 0
        self._log = log
        self._read_in_worker = read_in_worker
        self._held = held
        self._is_closed = False
        self._windows: dict[int, _SharedWindow] = {}
        # Their places, ascending; they may overlap.
        self._starts: list[int] = []
        self._under_way: dict[int, _Read] = {}
        # Dicts, for their order: who asked first is served first.
        self._waiting: dict[WindowReader, int] = {}
        self._likely_records = 1

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._windows)

    @property
    def held_bytes(self) -> int:
        """Memory that they need."""
        return sum(window.held_bytes for window in self._windows.values())

    def at(self, offset: int) -> LogWindow | None:
        """Return a fresh window in which an offset lies, if there is one."""
        window = self._covering(offset)
        if window is not None:
            self._held.use(window)
        return window

    def ask(self, offset: int, reader: WindowReader) -> None:
        """Have a place read, for which there is no window, and tell the reader later.

        A reader waits for one place at a time, the last one that it asked for.
        """
        self.forget(reader)
        if not self._is_closed:
            self._wait(offset, reader)
            self._begin_reads()

    def ask_ahead(self, offset: int) -> None:
        """Have a place read that somebody will need soon, if that keeps nobody waiting."""
        if (
            not self._waiting
            and len(self._under_way) < READS_MAX
            and self._held.has_room_ahead
            and self._bringing(offset) is None
            and self._covering(offset) is None
        ):
            self._begin(offset)

    def forget(self, reader: WindowReader) -> None:
        """Tell a reader nothing any more."""
        self._waiting.pop(reader, None)
        for read in self._under_way.values():
            read.waiting.pop(reader, None)

    def clear(self) -> None:
        """Let go of all windows; who waits still hears."""
        for window in list(self._windows.values()):
            window.clear()

    def close(self) -> None:
        """Let go for good: nobody is told anything any more, what is read now is not kept."""
        self._is_closed = True
        self._waiting.clear()
        self._under_way.clear()
        self.clear()

    def drop(self, window: _SharedWindow) -> None:
        """Let go of one."""
        if self._windows.get(window.start) is window:
            del self._windows[window.start]
            del self._starts[bisect_left(self._starts, window.start)]
            self._held.note(window, 0)

    def _covering(self, offset: int) -> _SharedWindow | None:
        # Most end where the next begins. Where they overlap, the one before may reach further.
        last = bisect_right(self._starts, offset)
        for start in reversed(self._starts[max(last - 2, 0) : last]):
            window = self._windows[start]
            if not window.is_fresh:
                window.clear()
            elif offset < window.end:
                return window
        return None

    def _bringing(self, offset: int) -> _Read | None:
        """Return a read under way that is likely to bring an offset."""
        for start, read in self._under_way.items():
            if start <= offset < start + self._likely_records:
                return read
        return None

    def _wait(self, offset: int, reader: WindowReader) -> None:
        read = self._bringing(offset)
        waiting = self._waiting if read is None else read.waiting
        waiting[reader] = offset

    def _begin_reads(self) -> None:
        """Begin as many reads as there may be, and tell who need not wait for one."""
        while self._waiting and len(self._under_way) < READS_MAX:
            reader, offset = next(iter(self._waiting.items()))
            del self._waiting[reader]
            if self._covering(offset) is not None:
                reader.window_arrived()
                continue
            read = self._bringing(offset) or self._begin(offset)
            read.waiting[reader] = offset

    def _begin(self, offset: int) -> _Read:
        read = self._under_way[offset] = _Read()

        def arrived(result: ReadResult | Exception) -> None:
            if self._under_way.get(offset) is read:
                del self._under_way[offset]
                self._arrived(offset, result, read)

        log = self._log
        if self._held.has_room_ahead:
            self._read_in_worker(lambda: log.read_window(offset, READ_RECORDS), arrived)
        else:
            # Many readers, at different places: more of them find something at hand.
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
                # It did not bring what it was thought to: that is read by itself, and next.
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
        insort(self._starts, start)
        # Less than that, for the next may be shorter: who waits in vain waits twice.
        self._likely_records = max(1, (window.end - start) // 2)
        self._held.note(window, window.held_bytes)


class _Read:
    """One that is under way, and who waits for what it brings."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[WindowReader, int] = {}


class _SharedWindow(LogWindow):
    """One of the windows of a log."""

    __slots__ = ("_owner",)

    def __init__(self, owner: SharedWindows, start: int, result: ReadResult) -> None:
        super().__init__(start, result)
        self._owner = owner

    def clear(self) -> None:
        """Let go of it."""
        self._owner.drop(self)
