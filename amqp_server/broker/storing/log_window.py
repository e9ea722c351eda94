"""What one read of a log brought, and for how long it is used."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from mmap import mmap
from typing import TYPE_CHECKING

from amqp_server.broker.storing.message_run import find_run

if TYPE_CHECKING:
    from amqp_server.broker.storing.message_run import MessageRun
    from appendlog import ReadResult, Records

READ_RECORDS = 16_384
"""Messages read at a time."""
SMALL_WINDOW_BYTES = 256 * 1024
"""Bytes of a window where many readers share the memory; at other times 1 MiB."""
WINDOW_SECONDS = 5.0
"""How long a window is used: pages of a mapping that nobody looks at may leave the memory, and
the loop must not wait for the disk."""
_OBJECTS_BYTES = 1024
"""What a window needs beside its places; so each holds something, those too without messages."""
_NO_TIMES = array("q")


class LogWindow:
    """Some neighbouring messages of a log: where they lie, no object for each.

    Args:
        start: Where the read was to begin.
        result: What it brought.

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
        self._parts = result.parts
        self.held_bytes = _OBJECTS_BYTES + sum(_held_bytes(part) for part in result.parts)

    @property
    def is_fresh(self) -> bool:
        """Whether it may still be used."""
        return time.monotonic() - self.read_at_seconds <= WINDOW_SECONDS

    def find(self, start: int, end: int) -> MessageRun | None:
        """Return the messages from `start` on that lie in one part, up to the first gap.

        None if the log does not have the first.
        """
        for part in self._parts:
            if start <= part.offsets[-1]:
                return find_run(part, start, end)
        return None

    def first_from(self, start: int) -> int:
        """Return the first offset at or after `start` that the log has; `end` if none here."""
        for part in self._parts:
            if start <= part.offsets[-1]:
                return part.offsets[bisect_left(part.offsets, start)]
        return self.end


def _held_bytes(part: Records) -> int:
    """Return what a part needs in memory, without the times, which nobody asks for."""
    part.timestamps_ns = _NO_TIMES
    held_bytes = 0 if isinstance(part.buffer, mmap) else len(part.buffer)
    if isinstance(part.offsets, array):
        held_bytes += len(part.offsets) * part.offsets.itemsize
    return held_bytes + len(part) * (part.positions.itemsize + part.lengths.itemsize)
