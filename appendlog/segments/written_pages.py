"""Eviction of written pages from the page cache: those that are on the disk and settled.

A queue whose consumers keep up is read from memory, never from its log. Its pages would fill the
page cache with data that is never read. Each MiB written would then take memory from something
else. In a virtual machine the host must find that memory first, at ten times the cost of the
write. The kernel uses evicted pages for the next writes.

Pages with unsettled records stay: a consumer may read them.
"""

import mmap
from collections import deque
from typing import Final

STEP_BYTES: Final = 1 << 20
"""Number of bytes to evict at once: a system call per flush would cost more than the pages."""


class WrittenPages:
    """Part of one file that is written and not evicted yet; for the thread that appends.

    Attributes:
        due_position: Position in the file from which `unneeded` may have an answer.
    """

    def __init__(self) -> None:
        self.due_position = STEP_BYTES
        self._start = 0
        # Ascending, `STEP_BYTES` apart: (end offset, its position in the file).
        self._places: deque[tuple[int, int]] = deque()

    def begin(self) -> None:
        """Forget the places of the last segment, whose pages stay cached: a new one begins."""
        self.due_position = STEP_BYTES
        self._start = 0
        self._places.clear()

    def unneeded(self, end_offset: int, position: int, floor: int) -> tuple[int, int]:
        """Return the whole pages to evict now, as `[start, end)` of the file; may be empty.

        Args:
            end_offset: Offset below which all records are on the disk.
            position: Where these records end in the file.
            floor: Offset below which no consumer reads soon.
        """
        last = self._places[-1][1] if self._places else self._start
        if position - last >= STEP_BYTES:
            self._places.append((end_offset, position))
        end = self._start
        while self._places and self._places[0][0] <= floor:
            end = self._places.popleft()[1]
        # The last page is written to again; if evicted, the kernel would have to read it first.
        end -= end % mmap.PAGESIZE
        start, self._start = self._start, max(self._start, end)
        self.due_position = self._start + STEP_BYTES
        return start, self._start
