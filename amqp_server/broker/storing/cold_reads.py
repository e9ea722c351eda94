"""Reading back from the log what has left the ring: two windows of it, read ahead.

While one window is delivered, a worker reads the next. Windows of sealed segments are
mappings, so that what they hold costs no memory but its places.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import OrderedDict, deque
from mmap import mmap
from typing import TYPE_CHECKING

from amqp_server.broker.storing.message_run import find_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.message_run import MessageRun
    from appendlog import Log, ReadResult

    ReadInWorker = Callable[
        [Callable[[], ReadResult], Callable[[ReadResult | Exception], None]], None
    ]
    """Runs a read in a worker and calls back on the loop; after a failure with a pause."""

READ_RECORDS = 16_384
"""Messages read ahead at a time."""
WINDOW_SECONDS = 5.0
"""How long a window is used: pages of a mapping that nobody looks at may leave the memory, and
the loop must not wait for the disk."""
HELD_BYTES_MAX = 64 * 1024 * 1024
"""Memory for all windows of a server; the readers that waited longest read theirs again."""
_NO_TIMES = array("q")


class ColdWindows:
    """What all readers of a server hold together, the one that read last at the end.

    Args:
        bytes_max: Above it the others let go of what they hold, the oldest first.
    """

    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        """Begin without readers."""
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._readers: OrderedDict[ColdReads, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._readers)

    def note(self, reader: ColdReads, held_bytes: int) -> None:
        """Take note of how much a reader holds now."""
        self.held_bytes += held_bytes - self._readers.pop(reader, 0)
        if held_bytes:
            self._readers[reader] = held_bytes
        while self.held_bytes > self._bytes_max and len(self._readers) > 1:
            next(iter(self._readers)).clear()


class ColdReads:
    """The messages that were last read from one log. The event loop owns it.

    Args:
        log: Where to read.
        read_in_worker: The disk is never read on the loop.
        windows: Bounds what all readers hold.
    """

    def __init__(self, log: Log, read_in_worker: ReadInWorker, windows: ColdWindows) -> None:
        """Begin with nothing at hand."""
        self._log = log
        self._read_in_worker = read_in_worker
        self._all = windows
        self._at_hand: deque[_Window] = deque()
        self._is_reading = False
        self._is_closed = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def end_offset(self) -> int:
        """End of what is at hand (exclusive); 0 when nothing is."""
        return self._at_hand[-1].end if self._at_hand else 0

    def get(self, start: int, end: int) -> MessageRun | None:
        """Return the messages of `[start, end)` from `start` on that are at hand, if any.

        They end before the first offset that the log does not have.
        """
        at_hand = self._at_hand
        while len(at_hand) > 1 and start >= at_hand[1].start:
            at_hand.popleft()
            self._note_held()
        if not at_hand or not at_hand[0].start <= start < at_hand[0].end:
            return None
        if time.monotonic() - at_hand[0].read_at_seconds > WINDOW_SECONDS:
            self.clear()
            return None
        return at_hand[0].find(start, end)

    def begin(self, start: int, arrived: Callable[[int, ReadResult | Exception], None]) -> None:
        """Read from `start`, unless a read is under way; tell `arrived` on the loop."""

        def done(result: ReadResult | Exception) -> None:
            if not isinstance(result, Exception):
                self._at_hand.clear()
                self._take(start, result)
            arrived(start, result)

        self._read(start, done)

    def begin_ahead(self, until: int, arrived: Callable[[], None]) -> None:
        """Read what follows the window at hand, if that is all there is; tell `arrived`.

        Args:
            until: Nothing is read from this offset on.
            arrived: Called on the loop, whatever came of it: who needs what was not read asks
                for it by `begin`, and hears then why.
        """
        if self._is_reading or len(self._at_hand) != 1 or self._at_hand[0].end >= until:
            return
        start = self._at_hand[0].end

        def done(result: ReadResult | Exception) -> None:
            if not isinstance(result, Exception) and self.end_offset == start:
                self._take(start, result)
            arrived()

        self._read(start, done)

    async def until_read(self) -> None:
        """Return when the read that is under way has arrived; at once if there is none."""
        if self._is_reading:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def clear(self) -> None:
        """Let go of what is at hand."""
        if self._at_hand:
            self._at_hand.clear()
            self._note_held()

    def close(self) -> None:
        """Let go for good: what a read that is under way brings is not kept either.

        Else it would stay for as long as the server runs, and with it the room of files that are
        deleted: all readers together hold what nobody asks for any more until there is too much.
        """
        self._is_closed = True
        self.clear()

    def _read(self, start: int, done: Callable[[ReadResult | Exception], None]) -> None:
        if self._is_reading:
            return
        self._is_reading = True

        def arrived(result: ReadResult | Exception) -> None:
            self._is_reading = False
            wake(self._waiters)
            done(result)

        self._read_in_worker(lambda: self._log.read_window(start, READ_RECORDS), arrived)

    def _take(self, start: int, result: ReadResult) -> None:
        if result.parts and not self._is_closed:
            self._at_hand.append(_Window(start, result))
        self._note_held()

    def _note_held(self) -> None:
        self._all.note(self, sum(window.held_bytes for window in self._at_hand))


class _Window:
    """What one read brought.

    Args:
        start: Where it was to begin.
        result: With at least one part.

    Attributes:
        start: See above.
        end: Where the next begins.
        read_at_seconds: When it arrived, by the monotonic clock.
        held_bytes: The memory that it needs.
    """

    __slots__ = ("_parts", "end", "held_bytes", "read_at_seconds", "start")

    def __init__(self, start: int, result: ReadResult) -> None:
        self.start = start
        self.end = result.next_offset
        self.read_at_seconds = time.monotonic()
        self.held_bytes = 0
        self._parts = result.parts
        for part in result.parts:
            part.timestamps_ns = _NO_TIMES
            buffer_bytes = 0 if isinstance(part.buffer, mmap) else len(part.buffer)
            self.held_bytes += buffer_bytes + len(part) * (
                part.positions.itemsize + part.lengths.itemsize
            )

    def find(self, start: int, end: int) -> MessageRun | None:
        """Return the messages from `start` on that lie in one part."""
        for part in self._parts:
            if start <= part.offsets[-1]:
                return find_run(part, start, end)
        return None


def wake(waiters: list[asyncio.Future[None]]) -> None:
    """Finish all waiters and empty the list."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
