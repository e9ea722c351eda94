"""Read-only mappings of files that never change, a bounded number of them.

The caller asks for a window of a file and gets a mapping in which it lies, already read into
the page cache and into the page tables:

- It is read with `read_into` first, in the caller's thread and without the interpreter's
  lock. So a disk that cannot read is an OSError there. Through a mapping alone it would be a
  SIGBUS, which ends the process, in whichever thread looks first.
- MADV_POPULATE_READ then fills the page tables, where the kernel has it (Linux 5.14). It
  reports as an error what would be a signal.
- What lies behind the window is asked for ahead; what was handed out before the last two
  windows is given back (MADV_DONTNEED), so that the resident set stays small.

What remains: a page that the kernel has dropped again under pressure, between this and the
look at it, is read once more by whoever looks; if the disk fails in that moment, the process
ends as if killed. Nothing that was confirmed is lost by that. A window should therefore be
used soon, and asked for anew when it was kept for long.

Only files that nobody truncates may be mapped (invariant I6): a look behind the end of a
shortened file is a SIGBUS too. Should one be shorter nevertheless, the reading beforehand
finds out, and there is no mapping.

A mapping lives as long as somebody holds its buffer. Its file may be unlinked meanwhile.
Python keeps a descriptor of the file for each.
"""

import contextlib
import mmap
import threading
import weakref
from collections import OrderedDict, deque
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem

MAPPINGS_MAX: Final = 128
MAPPED_BYTES_MAX: Final = 16 << 30
MAPPED_WINDOW_BYTES: Final = 64 << 20

_POPULATE_READ: Final = 22
_SCRATCH_BYTES: Final = 256 << 10
_WINDOWS_KEPT: Final = 2


class Mapping:
    """A part of one file, mapped.

    Attributes:
        buffer: The bytes `[start, end)` of the file; whoever keeps it keeps them mapped.
        start: Position in the file, a multiple of the page size.
        end: Exclusive.
        windows: The parts that were handed out last; of the set that made it.
    """

    __slots__ = ("buffer", "end", "start", "windows")

    def __init__(self, buffer: mmap.mmap, start: int) -> None:
        self.buffer = buffer
        self.start = start
        self.end = start + len(buffer)
        self.windows: deque[tuple[int, int]] = deque()


class Mappings:
    """A least-recently-used set of mappings, one for each file at most. Thread-safe.

    The bounds hold for all that is mapped, also for what others still hold: when that is too
    much, there is no mapping, and the caller reads in another way.

    Args:
        count_max: Mappings at a time.
        bytes_max: Address space of all together.
        window_bytes: What of a file is mapped at once, if it is longer. More only where one
            window that is asked for is larger.
    """

    def __init__(
        self,
        count_max: int = MAPPINGS_MAX,
        bytes_max: int = MAPPED_BYTES_MAX,
        window_bytes: int = MAPPED_WINDOW_BYTES,
    ) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._window_bytes = max(window_bytes, mmap.ALLOCATIONGRANULARITY)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[FileSystem, Path], Mapping] = OrderedDict()
        self._count = 0
        self._mapped_bytes = 0
        # Filled when a buffer dies, in any thread, perhaps in one that holds the lock.
        self._unmapped_bytes: deque[int] = deque()
        self._scratch = threading.local()

    @property
    def count(self) -> int:
        """How many mappings there are, kept here or held by others."""
        with self._lock:
            self._note_unmapped()
            return self._count

    @property
    def mapped_bytes(self) -> int:
        """Address space of all mappings."""
        with self._lock:
            self._note_unmapped()
            return self._mapped_bytes

    def window(
        self,
        filesystem: FileSystem,
        path: Path,
        descriptor: int,
        position: int,
        size: int,
        limit: int,
    ) -> Mapping | None:
        """Return a mapping in which `[position, position + size)` lies and is at hand.

        Args:
            filesystem: All file calls go through it.
            path: The file.
            descriptor: The same, open.
            position: Where the window begins.
            size: At least 1; the window ends at or below `limit`.
            limit: Bytes of the file that never change; nothing behind them is mapped.

        Returns:
            None when the bounds are reached, or the file is shorter than it should be.

        Raises:
            OSError: The file cannot be read.
        """
        if not self._read(filesystem, descriptor, position, size):
            return None
        if position + size < limit:
            filesystem.will_need(descriptor, position + size, min(size, limit - position - size))
        with self._lock:
            mapping = self._find(filesystem, path, position, position + size)
            if mapping is None:
                mapping = self._map(filesystem, path, descriptor, position, size, limit)
            if mapping is not None:
                self._populate(mapping, position, position + size)
            return mapping

    def forget(self, filesystem: FileSystem, path: Path) -> None:
        """Let go of a file, once it is unlinked: it is unmapped when nobody holds it."""
        with self._lock:
            self._kept.pop((filesystem, path), None)

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._kept.clear()

    def _read(self, filesystem: FileSystem, descriptor: int, position: int, size: int) -> bool:
        """Read a window to nowhere; tell whether the file has all of it."""
        scratch = getattr(self._scratch, "buffer", None)
        if scratch is None:
            scratch = self._scratch.buffer = memoryview(bytearray(_SCRATCH_BYTES))
        end = position + size
        while position < end:
            read = filesystem.read_into(descriptor, scratch[: end - position], position)
            if not read:
                return False
            position += read
        return True

    def _find(self, filesystem: FileSystem, path: Path, start: int, end: int) -> Mapping | None:
        mapping = self._kept.get((filesystem, path))
        if mapping is None or start < mapping.start or end > mapping.end:
            return None
        self._kept.move_to_end((filesystem, path))
        return mapping

    def _map(
        self,
        filesystem: FileSystem,
        path: Path,
        descriptor: int,
        position: int,
        size: int,
        limit: int,
    ) -> Mapping | None:
        """Map what is around a window, and keep it; None if that would be too much."""
        start, end = self._part(position, size, limit)
        self._kept.pop((filesystem, path), None)
        if not self._make_room(end - start):
            return None
        try:
            buffer = filesystem.map(descriptor, end - start, start)
        except ValueError:  # shorter than it should be
            return None
        self._count += 1
        self._mapped_bytes += end - start
        weakref.finalize(buffer, self._unmapped_bytes.append, end - start).atexit = False
        mapping = Mapping(buffer, start)
        # A file that was unlinked meanwhile would be kept for nothing: nobody forgets it again.
        if filesystem.exists(path):
            self._kept[filesystem, path] = mapping
        return mapping

    def _part(self, position: int, size: int, limit: int) -> tuple[int, int]:
        """Return which part of a file to map for a window: an aligned one, if it fits."""
        start = position // self._window_bytes * self._window_bytes
        start -= start % mmap.ALLOCATIONGRANULARITY
        if position + size > start + self._window_bytes:
            start = position - position % mmap.ALLOCATIONGRANULARITY
        end = max(start + self._window_bytes, position + size)
        return start, min(end, limit)

    def _make_room(self, size: int) -> bool:
        while True:
            self._note_unmapped()
            if self._count < self._count_max and self._mapped_bytes + size <= self._bytes_max:
                return True
            if not self._kept:
                return False
            self._kept.popitem(last=False)

    def _note_unmapped(self) -> None:
        while self._unmapped_bytes:
            self._mapped_bytes -= self._unmapped_bytes.popleft()
            self._count -= 1

    def _populate(self, mapping: Mapping, start: int, end: int) -> None:
        """Fill the page tables of a window, and empty those of one that is behind."""
        if (start, end) in mapping.windows:
            return
        _advise(mapping, _POPULATE_READ, start, end)
        mapping.windows.append((start, end))
        if len(mapping.windows) > _WINDOWS_KEPT:
            behind_start, behind_end = mapping.windows.popleft()
            ahead = min(window[0] for window in mapping.windows)
            if behind_start < ahead:
                behind_end = min(behind_end, ahead)
            _advise(mapping, getattr(mmap, "MADV_DONTNEED", -1), behind_start, behind_end)


def _advise(mapping: Mapping, advice: int, start: int, end: int) -> None:
    """Give advice about whole pages, where the kernel takes it."""
    if advice < 0 or not hasattr(mapping.buffer, "madvise"):  # pragma: no cover - not on Linux
        return
    first = start - mapping.start
    first -= first % mmap.PAGESIZE
    with contextlib.suppress(OSError):
        mapping.buffer.madvise(advice, first, end - mapping.start - first)


SHARED_MAPPINGS: Final = Mappings()
"""The set that all logs of the process share."""
