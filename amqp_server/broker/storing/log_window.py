"""A window of a log: the records that one read returned, and how long they may be used."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from amqp_server.broker.storing.message_run import find_run
from appendlog.files.mapped_file import MappedFile

if TYPE_CHECKING:
    from amqp_server.broker.storing.message_run import Messages
    from appendlog import ReadResult, Records

READ_RECORDS = 16_384
"""Messages read at a time."""
SMALL_WINDOW_BYTES = 256 * 1024
"""Bytes of a window while many readers share the memory; otherwise 1 MiB."""
LARGE_WINDOW_BYTES = 4 * 1024 * 1024
"""Bytes of large messages that a queue's consumers read at a time, while there is memory. What a
read costs beside its octets is several passes of the interpreter between two threads: one message
of 1 MiB at a time, a queue that has fallen behind would never catch up."""
WINDOW_SECONDS = 5.0
"""How long a window is used. The kernel may drop old pages of a mapping from memory, and the
event loop must not wait for the disk."""
_OBJECTS_BYTES = 1024
"""Memory of a window beside its positions; so a window without messages counts too."""
_NO_TIMES = array("q")


class LogWindow:
    """Consecutive records of a log, kept as positions in a buffer instead of one object each.

    Args:
        start: Offset from which the worker read.
        result: Records that it returned.

    Attributes:
        start: Offset from which the worker read.
        end: Offset at which the next read begins.
        read_at_seconds: Time of arrival by the monotonic clock.
        held_bytes: Memory that the window uses.
        ends_large: Whether the last message is a large one, as the next ones may be.
    """

    __slots__ = (
        "_mapped",
        "_parts",
        "end",
        "ends_large",
        "held_bytes",
        "read_at_seconds",
        "start",
    )

    def __init__(self, start: int, result: ReadResult) -> None:
        self.start = start
        self.end = result.next_offset
        self.read_at_seconds = time.monotonic()
        self._parts = result.parts
        self.ends_large = bool(result.parts) and result.parts[-1].sole_message is not None
        self._mapped = [part.buffer for part in result.parts if isinstance(part.buffer, MappedFile)]
        self.held_bytes = _OBJECTS_BYTES + sum(_held_bytes(part) for part in result.parts)

    @property
    def is_fresh(self) -> bool:
        """Whether the window may still be used: it is new, and its files have kept their length.

        An access behind the end of a file that a person has shortened would end the process.
        """
        return time.monotonic() - self.read_at_seconds <= WINDOW_SECONDS and all(
            mapped.is_whole for mapped in self._mapped
        )

    def find(self, start: int, end: int) -> Messages | None:
        """Return the messages from `start` up to the first gap, all from one part.

        Returns None if the log does not have `start`.
        """
        for part in self._parts:
            if start <= part.offsets[-1]:
                # A large message was read as one object: nothing copies it from here on.
                message = part.sole_message
                if message is not None and start in part.offsets:
                    return [message]
                return find_run(part, start, end)
        return None

    def first_from(self, start: int) -> int:
        """Return the first offset of the window at or after `start`; `end` if there is none."""
        for part in self._parts:
            if start <= part.offsets[-1]:
                return part.offsets[bisect_left(part.offsets, start)]
        return self.end


def _held_bytes(part: Records) -> int:
    """Drop the part's unused timestamps; return the memory that it uses."""
    part.timestamps_ns = _NO_TIMES
    held_bytes = 0 if isinstance(part.buffer, MappedFile) else len(part.buffer)
    if isinstance(part.offsets, array):
        held_bytes += len(part.offsets) * part.offsets.itemsize
    return held_bytes + len(part) * (part.positions.itemsize + part.lengths.itemsize)
