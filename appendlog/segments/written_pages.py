"""Letting go of page cache that nobody will read: what is on the disk, and settled.

A queue whose consumers keep up is read from memory, never from its log. Its pages would fill the
cache with what is never asked for, and each MiB that is written would need memory that was used
for something else before: in a virtual machine that the host first has to find, at ten times the
cost of the write itself. Pages that were let go of are the next ones to be written to.

What is not settled stays: a consumer may come for it.
"""

import mmap
from collections import deque
from typing import Final

STEP_BYTES: Final = 1 << 20
"""Let go of at a time: a system call for each flush would cost more than the pages."""


class WrittenPages:
    """The part of one file that is written and not let go of; for the thread that appends."""

    def __init__(self) -> None:
        self._start = 0
        # Ascending, `STEP_BYTES` apart: (end offset, where it stands in the file).
        self._places: deque[tuple[int, int]] = deque()

    def begin(self) -> None:
        """Go on with another file. What the last one has in the cache stays there."""
        self._start = 0
        self._places.clear()

    def add(self, end_offset: int, position: int) -> None:
        """Note that the records below an offset end at a position, and are on the disk."""
        last = self._places[-1][1] if self._places else self._start
        if position - last >= STEP_BYTES:
            self._places.append((end_offset, position))

    def unneeded(self, floor: int) -> tuple[int, int]:
        """Return the whole pages to let go of now, as `[start, end)` of the file; perhaps none.

        Args:
            floor: Nobody will read an offset below it soon.
        """
        end = self._start
        while self._places and self._places[0][0] <= floor:
            end = self._places.popleft()[1]
        # The last page is written to again, and would have to be read for that.
        end -= end % mmap.PAGESIZE
        start, self._start = self._start, max(self._start, end)
        return start, self._start
