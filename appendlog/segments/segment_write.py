"""The usual append: one synced write at the end of a segment, then one of the `end` file."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from appendlog.append import Append
from appendlog.files.descriptors import Borrowed
from appendlog.files.filesystem import FileSystem

WRITE_BUFFERS_MAX: Final = 64
"""Maximum number of buffers in a prepared write: it is prepared without a pause."""
NO_PAGES: Final = (0, 0)
_NUMBERS: Final = count()


class SegmentWrite:
    """An append that one thread has prepared, so that another one has only to write it.

    The thread that writes needs no state of the log: it makes two system calls, or three, on files
    that are open. `write` makes them; a compiled kernel may, and calls `note_written`. Afterwards
    the thread that has prepared it completes or abandons it.

    Args:
        filesystem: File operations of the log.
        path: Path of the segment.
        append: What is appended.
        segment: File of the segment.
        end: The `end` file.
        buffers: What to write to the segment, at most `WRITE_BUFFERS_MAX`.
        octets: Their size.
        position: Where to write them.
        slot: What to write to the `end` file once they are on the disk.
        slot_position: Where to write that.
        unneeded: Where pages of the segment begin and end that the kernel need not keep, once both
            are written; equal if there are none.

    Attributes:
        number: Differs from that of every other write of the process.
        error: What kept the octets from the disk, or None.
        slot_error: What kept the slot from the `end` file, or None.
        is_refused: Whether nothing is wrong, but another way of writing is needed: the kernel took
            only a part, or refuses writes that include their sync.
    """

    __slots__ = (
        "append",
        "buffers",
        "end",
        "error",
        "filesystem",
        "is_refused",
        "number",
        "octets",
        "path",
        "position",
        "segment",
        "slot",
        "slot_error",
        "slot_position",
        "unneeded",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        path: Path,
        append: Append,
        segment: Borrowed,
        end: Borrowed,
        buffers: Sequence[bytes | memoryview],
        octets: int,
        position: int,
        slot: bytes,
        slot_position: int,
        unneeded: tuple[int, int] = NO_PAGES,
    ) -> None:
        self.filesystem = filesystem
        self.path = path
        self.append = append
        self.segment = segment
        self.end = end
        self.buffers = buffers
        self.octets = octets
        self.position = position
        self.slot = slot
        self.slot_position = slot_position
        self.unneeded = unneeded
        self.number = next(_NUMBERS)
        self.error: Exception | None = None
        self.slot_error: Exception | None = None
        self.is_refused = False

    def write(self) -> None:
        """Write, with the operations of the file system; what goes wrong is a result."""
        filesystem = self.filesystem
        try:
            written = filesystem.pwritev(
                self.segment.descriptor, self.buffers, self.position, sync=True
            )
        except OSError as error:
            self._note_error(error)
            return
        if written != self.octets:
            self.is_refused = True
            return
        try:
            written = filesystem.pwrite(self.end.descriptor, self.slot, self.slot_position)
        except OSError as error:
            self.slot_error = error
            return
        if written != len(self.slot):
            self.slot_error = self._shortened(written)
            return
        start, end = self.unneeded
        if start < end:
            # A kernel or file system that takes no advice keeps the pages.
            with suppress(OSError):
                filesystem.wont_need(self.segment.descriptor, start, end - start)

    def note_written(
        self,
        written: int,
        error: OSError | None,
        seconds: float,
        slot_written: int,
        slot_error: OSError | None,
        slot_seconds: float,
    ) -> None:
        """Take note of what a kernel has done; the slot is written if all octets are.

        Args:
            written: Number of octets that are on the disk; -1 if the write failed.
            error: Why it failed.
            seconds: Time that it took.
            slot_written: The same of the slot.
            slot_error: The same of the slot.
            slot_seconds: The same of the slot.
        """
        self.filesystem.note_pwritev(written, seconds)
        if error is not None:
            self._note_error(error)
        elif written != self.octets:
            self.is_refused = True
        else:
            self.filesystem.note_pwrite(slot_written, slot_seconds)
            if slot_written != len(self.slot):
                self.slot_error = slot_error or self._shortened(slot_written)

    def _note_error(self, error: OSError) -> None:
        if self.filesystem.refuses_dsync(error):
            self.is_refused = True
        else:
            self.error = error

    def _shortened(self, written: int) -> OSError:
        return OSError(f"{written} of {len(self.slot)} bytes written")
