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

A file is mapped in parts, at places that do not depend on who asks: readers at many places of
a file share its mappings, and each part is mapped once as long as it is kept or in use. When
there are too many, those go that nobody uses, the one that was not asked for longest first.
What is in use stays, so that the next window of it needs no other mapping.

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
from typing import Final, NamedTuple

from appendlog.files.filesystem import FileSystem
from appendlog.files.open_files import (
    OPEN_FILES,
    SHED_SECONDS_MAX,
    is_for_want_of_files,
    share_of_limit,
)

MAPPINGS_MAX: Final = 128
"""Mapped parts of all logs of the process together, where its limit is large enough."""
MAPPED_BYTES_MAX: Final = 16 << 30
MAPPED_WINDOW_BYTES: Final = 64 << 20

_POPULATE_READ: Final = 22
_SCRATCH_BYTES: Final = 256 << 10
_WINDOWS_KEPT: Final = 2


class MappedWindow(NamedTuple):
    """A window of a file that lies in a mapping.

    Attributes:
        buffer: The mapping; whoever keeps it keeps it mapped.
        start: Where the window begins in it.
        is_new: Whether the mapping was made for it.
    """

    buffer: mmap.mmap
    start: int
    is_new: bool


class _Mapping:
    """A part of one file, mapped.

    Attributes:
        buffer: The bytes `[start, end)` of the file; whoever keeps it keeps them mapped.
        start: Position in the file, a multiple of the page size.
        end: Exclusive.
        windows: Those that were handed out last.
    """

    __slots__ = ("buffer", "end", "start", "windows")

    def __init__(self, buffer: mmap.mmap, start: int) -> None:
        self.buffer = buffer
        self.start = start
        self.end = start + len(buffer)
        self.windows: deque[tuple[int, int]] = deque()


class _Key(NamedTuple):
    """Where a mapping begins."""

    filesystem: FileSystem
    path: Path
    start: int


class Mappings:
    """A least-recently-used set of mappings. Thread-safe.

    The bounds hold for all that is mapped, also for what others still hold: when that is too
    much, there is no mapping, and the caller reads in another way.

    Args:
        count_max: Mappings at a time.
        bytes_max: Address space of all together.
        window_bytes: What of a file is mapped at once, if it is longer, and a little more, for
            windows that begin in one part and end in the next. A larger one has its own.

    Attributes:
        count_max: As given; may be changed.
    """

    def __init__(
        self,
        count_max: int = MAPPINGS_MAX,
        bytes_max: int = MAPPED_BYTES_MAX,
        window_bytes: int = MAPPED_WINDOW_BYTES,
    ) -> None:
        self.count_max = count_max
        self._bytes_max = bytes_max
        self._window_bytes = max(window_bytes, mmap.ALLOCATIONGRANULARITY)
        # To map a file may take `shed`, in the same thread.
        self._lock = threading.RLock()
        self._overlap_bytes = self._window_bytes // 64
        self._kept: OrderedDict[_Key, _Mapping] = OrderedDict()
        self._count = 0
        self._mapped_bytes = 0
        # Filled when a buffer dies, in any thread, perhaps in one that holds the lock.
        self._unmapped_bytes: deque[int] = deque()
        self._scratch = threading.local()
        OPEN_FILES.add_cache(self)

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
    ) -> MappedWindow | None:
        """Return a mapping in which `[position, position + size)` lies and is at hand.

        Args:
            filesystem: File operations of the log.
            path: The file.
            descriptor: The same, open.
            position: Where the window begins.
            size: At least 1; the window ends at or below `limit`.
            limit: Bytes of the file that never change; nothing behind them is mapped.

        Returns:
            None when the bounds are reached, those of the process too, or the file is shorter
            than it should be.

        Raises:
            OSError: The file cannot be read.
        """
        if not self._read(filesystem, descriptor, position, size):
            return None
        if position + size < limit:
            filesystem.will_need(descriptor, position + size, min(size, limit - position - size))
        start, end = self._part(position, size, limit)
        with self._lock:
            mapping = self._find(_Key(filesystem, path, start), position + size)
            is_new = mapping is None
            if mapping is None:
                mapping = self._map(_Key(filesystem, path, start), descriptor, end)
            if mapping is None:
                return None
            self._populate(mapping, position, position + size)
            return MappedWindow(mapping.buffer, position - mapping.start, is_new)

    def forget(self, filesystem: FileSystem, path: Path) -> None:
        """Let go of a file, once it is unlinked: it is unmapped when nobody holds it."""
        with self._lock:
            for key in [key for key in self._kept if key[:2] == (filesystem, path)]:
                del self._kept[key]

    def shed(self) -> int:
        """Unmap half of what nobody uses, what was asked for longest ago; return how many parts.

        None if another thread is at work here for longer than `SHED_SECONDS_MAX`.
        """
        if not self._lock.acquire(timeout=SHED_SECONDS_MAX):
            return 0
        try:
            self._note_unmapped()
            count = self._count
            for key in list(self._kept)[: (len(self._kept) + 1) // 2]:
                self._unmap(key)
            self._note_unmapped()
            return count - self._count
        finally:
            self._lock.release()

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

    def _part(self, position: int, size: int, limit: int) -> tuple[int, int]:
        """Return which part of a file to map for a window."""
        start = position // self._window_bytes * self._window_bytes
        start -= start % mmap.ALLOCATIONGRANULARITY
        end = start + self._window_bytes + self._overlap_bytes
        if position + size > end:
            start = position - position % mmap.ALLOCATIONGRANULARITY
            end = position + size
        return start, min(end, limit)

    def _find(self, key: _Key, end: int) -> _Mapping | None:
        mapping = self._kept.get(key)
        if mapping is None or end > mapping.end:
            return None
        self._kept.move_to_end(key)
        return mapping

    def _map(self, key: _Key, descriptor: int, end: int) -> _Mapping | None:
        """Map the part of a file from the key's start on, and keep it, if there is room."""
        size = end - key.start
        self._kept.pop(key, None)
        if not self._make_room(size):
            return None
        try:
            buffer = key.filesystem.map(descriptor, size, key.start)
        except ValueError:  # shorter than it should be
            return None
        except OSError as error:
            if not is_for_want_of_files(error):
                raise
            return None
        self._count += 1
        self._mapped_bytes += size
        weakref.finalize(buffer, self._unmapped_bytes.append, size).atexit = False
        mapping = _Mapping(buffer, key.start)
        # A file that was unlinked meanwhile would be kept for nothing: nobody forgets it again.
        if key.filesystem.exists(key.path):
            self._kept[key] = mapping
        return mapping

    def _make_room(self, size: int) -> bool:
        self._note_unmapped()
        for key in list(self._kept):
            if self._has_room(size):
                break
            self._unmap(key)
            self._note_unmapped()
        return self._has_room(size)

    def _has_room(self, size: int) -> bool:
        return self._count < self.count_max and self._mapped_bytes + size <= self._bytes_max

    def _unmap(self, key: _Key) -> None:
        """Unmap what nobody uses; what is in use is kept, as what was asked for last."""
        mapping = self._kept.pop(key)
        used = weakref.ref(mapping.buffer)
        del mapping.buffer
        buffer = used()
        if buffer is not None:
            mapping.buffer = buffer
            self._kept[key] = mapping

    def _note_unmapped(self) -> None:
        while self._unmapped_bytes:
            self._mapped_bytes -= self._unmapped_bytes.popleft()
            self._count -= 1

    def _populate(self, mapping: _Mapping, start: int, end: int) -> None:
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


def _advise(mapping: _Mapping, advice: int, start: int, end: int) -> None:
    """Give advice about whole pages, where the kernel takes it."""
    if advice < 0 or not hasattr(mapping.buffer, "madvise"):  # pragma: no cover - not on Linux
        return
    first = start - mapping.start
    first -= first % mmap.PAGESIZE
    with contextlib.suppress(OSError):
        mapping.buffer.madvise(advice, first, end - mapping.start - first)


SHARED_MAPPINGS: Final = Mappings(share_of_limit(MAPPINGS_MAX))
"""The set that all logs of the process share."""
