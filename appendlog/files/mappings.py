"""A bounded number of read-only mappings of files that never change.

The caller asks for a window of a file and gets a mapping that contains it, already read into the
page cache and into the page tables:

- The window is first read with `read_into`, in the caller's thread and without the GIL. So a disk
  that cannot read raises OSError there. With a mapping alone it would be a SIGBUS, which ends the
  process, in the first thread that accesses the page.
- MADV_POPULATE_READ then fills the page tables, if the kernel has it (Linux 5.14). It reports an
  error instead of sending a signal.
- The kernel is asked to read ahead what follows the window. The pages of windows before the last
  two are released (MADV_DONTNEED), so that the resident set stays small.

A file is mapped in parts, at positions that do not depend on the caller: readers at several places
of a file share its mappings, and each part is mapped once while it is cached or in use. If there
are too many, unused mappings are removed, least recently used first. Mappings in use stay, so that
the next window of them needs no new mapping.

One risk remains: the kernel may drop a page under memory pressure before it is accessed. The access
then reads the page again; if the disk fails at that moment, the process ends as if killed. This
loses no confirmed message. Therefore use a window soon, and ask for it again after a long time.

Only files that are never truncated may be mapped (invariant I6): an access after the end of a
shortened file is a SIGBUS too. If a file is shorter nevertheless, the read before finds out, and
the file is not mapped. Who keeps a window asks `MappedFile.is_whole` before each use.

A mapping lives as long as a caller refers to its buffer, even if its file is unlinked. Python keeps
a descriptor of the file for each mapping.
"""

import contextlib
import mmap
import threading
import weakref
from collections import OrderedDict, deque
from pathlib import Path
from typing import Final, NamedTuple

from appendlog.files.filesystem import FileSystem
from appendlog.files.mapped_file import MappedFile
from appendlog.files.open_files import (
    LOCK_SECONDS_MAX,
    OPEN_FILES,
    is_for_want_of_files,
    share_of_limit,
)

MAPPINGS_MAX: Final = 128
"""Maximum for all logs of the process together, if its limit of files allows that."""
MAPPED_BYTES_MAX: Final = 16 << 30
MAPPED_WINDOW_BYTES: Final = 64 << 20

_POPULATE_READ: Final = 22
_SCRATCH_BYTES: Final = 256 << 10
_WINDOWS_KEPT: Final = 2


class MappedWindow(NamedTuple):
    """Window of a file, inside a mapping.

    Attributes:
        buffer: The mapping; it stays mapped as long as something refers to it.
        start: Position of the window in the buffer.
        is_new: Whether the mapping was made for this window.
    """

    buffer: MappedFile
    start: int
    is_new: bool


class _Mapping:
    """Mapped part of one file.

    Attributes:
        buffer: Bytes `[start, end)` of the file; mapped as long as something refers to it.
        start: Position in the file, a multiple of the page size.
        end: End position in the file, exclusive.
        windows: Last windows that were returned.
    """

    __slots__ = ("buffer", "end", "start", "windows")

    def __init__(self, buffer: MappedFile, start: int) -> None:
        self.buffer = buffer
        self.start = start
        self.end = start + len(buffer)
        self.windows: deque[tuple[int, int]] = deque()


class _Key(NamedTuple):
    """File, and the position where a mapping begins."""

    filesystem: FileSystem
    path: Path
    start: int


class Mappings:
    """Least-recently-used cache of mappings. Thread-safe.

    The bounds count all mappings, also those that only callers still refer to. If a bound is
    reached, `window` returns None, and the caller reads by copy.

    Args:
        count_max: Maximum number of mappings.
        bytes_max: Maximum address space of all mappings, in bytes.
        window_bytes: Size of the part that is mapped at once. A little more is mapped, for windows
            that begin in one part and end in the next. A larger window gets its own mapping.

    Attributes:
        count_max: Maximum number of mappings; may be changed.
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
        # Mapping a file may call `evict_unused`, in the same thread.
        self._lock = threading.RLock()
        self._overlap_bytes = self._window_bytes // 64
        self._kept: OrderedDict[_Key, _Mapping] = OrderedDict()
        self._count = 0
        self._mapped_bytes = 0
        # Filled when a buffer is freed, in any thread, perhaps in one that holds the lock.
        self._unmapped_bytes: deque[int] = deque()
        self._scratch = threading.local()
        OPEN_FILES.add_cache(self)

    @property
    def count(self) -> int:
        """Number of mappings, cached or only in use by callers."""
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
        """Return a mapping that contains `[position, position + size)`, already read.

        Args:
            filesystem: File operations.
            path: Path of the file.
            descriptor: Descriptor of the open file.
            position: Position of the window.
            size: Size of the window, at least 1; the window ends at or below `limit`.
            limit: Number of bytes of the file that never change; nothing after them is mapped.

        Returns:
            None if a bound is reached, including those of the process, or if the file is shorter
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

    def evict(self, filesystem: FileSystem, path: Path) -> None:
        """Remove an unlinked file from the cache; it is unmapped once nothing refers to it."""
        with self._lock:
            for key in [key for key in self._kept if key[:2] == (filesystem, path)]:
                del self._kept[key]

    def evict_below(self, directory: Path) -> None:
        """Remove all files below a directory; each is unmapped once nothing refers to it."""
        with self._lock:
            for key in [key for key in self._kept if key.path.is_relative_to(directory)]:
                del self._kept[key]

    def evict_unused(self) -> int:
        """Unmap half of the unused parts, least recently used first; return how many.

        Returns 0 if another thread holds the lock for longer than `LOCK_SECONDS_MAX`.
        """
        if not self._lock.acquire(timeout=LOCK_SECONDS_MAX):
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
        """Remove all files from the cache."""
        with self._lock:
            self._kept.clear()

    def _read(self, filesystem: FileSystem, descriptor: int, position: int, size: int) -> bool:
        """Read a window and discard it; return whether the file has all of it."""
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
        """Return the part of a file to map for a window."""
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
        """Map the part of a file from the key's start on and cache it, if the bounds allow that."""
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
        # Do not cache a file that has been unlinked since: nothing would remove it again.
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
        """Unmap an unused mapping; one in use stays and becomes the most recently used."""
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
        """Fill the page tables of a window, and empty those of an older one."""
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
    """Give the kernel advice about whole pages, if it supports that."""
    if advice < 0 or not hasattr(mapping.buffer, "madvise"):  # pragma: no cover - not on Linux
        return
    first = start - mapping.start
    first -= first % mmap.PAGESIZE
    with contextlib.suppress(OSError):
        mapping.buffer.madvise(advice, first, end - mapping.start - first)


SHARED_MAPPINGS: Final = Mappings(share_of_limit(MAPPINGS_MAX))
"""The set that all logs of the process share."""
