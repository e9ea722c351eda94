"""Reading back from the log what has left the ring: one window of messages, read ahead."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from appendlog import Log, ReadResult

    ReadInWorker = Callable[
        [Callable[[], ReadResult], Callable[[ReadResult | Exception], None]], None
    ]
    """Runs a read in a worker and calls back on the loop; after a failure with a pause."""

READ_BYTES = 1024 * 1024
"""Message bytes read ahead at a time."""
READ_RECORDS = 16_384
"""Messages read ahead at a time."""


class ColdReads:
    """The messages that were last read from one log. The event loop owns it.

    Args:
        log: Where to read.
        read_in_worker: The disk is never read on the loop.
    """

    def __init__(self, log: Log, read_in_worker: ReadInWorker) -> None:
        """Begin with nothing at hand."""
        self._log = log
        self._read_in_worker = read_in_worker
        self._offsets: list[int] = []
        self._messages: list[bytes] = []
        self._is_reading = False
        self._waiters: list[asyncio.Future[None]] = []

    def get(self, start: int, end: int) -> list[bytes]:
        """Return the messages of `[start, end)` from `start` on that are at hand, if any.

        The list ends before the first offset that the log does not have.
        """
        offsets = self._offsets
        at = bisect_left(offsets, start)
        if at == len(offsets) or offsets[at] != start:
            return []
        if offsets[-1] - offsets[0] + 1 == len(offsets):
            return self._messages[at : at + end - start]
        stop = at + 1
        while stop < len(offsets) and offsets[stop] == offsets[stop - 1] + 1 < end:
            stop += 1
        return self._messages[at:stop]

    def begin(self, start: int, arrived: Callable[[int, ReadResult | Exception], None]) -> None:
        """Read ahead from `start`, unless a read is under way; tell `arrived` on the loop."""
        if self._is_reading:
            return
        self._is_reading = True

        def read() -> ReadResult:
            return self._log.read(start, READ_BYTES, READ_RECORDS)

        def done(result: ReadResult | Exception) -> None:
            self._is_reading = False
            if not isinstance(result, Exception):
                self._offsets, self._messages = result.offsets, result.messages
            wake(self._waiters)
            arrived(start, result)

        self._read_in_worker(read, done)

    async def until_read(self) -> None:
        """Return when the read that is under way has arrived; at once if there is none."""
        if self._is_reading:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def clear(self) -> None:
        """Let go of what is at hand."""
        if self._offsets:
            self._offsets, self._messages = [], []


def wake(waiters: list[asyncio.Future[None]]) -> None:
    """Finish all waiters and empty the list."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()
