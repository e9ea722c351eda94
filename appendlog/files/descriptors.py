"""Bounded cache of open files, for any number of logs.

Ten thousand idle queues must cost no descriptor. A file is borrowed for one operation. It stays
open until it is the least recently used one beyond `capacity`, or is evicted.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.files.open_files import LOCK_SECONDS_MAX, OPEN_FILES, share_of_limit

OPEN_FILES_MAX: Final = 512
"""Maximum for all logs of the process together, if its limit of files allows that."""


class Borrowed:
    """Open file in use: `with descriptors.borrow(...) as descriptor`."""

    __slots__ = ("_lock", "descriptor", "filesystem", "is_evicted", "users")

    def __init__(self, lock: "threading.RLock", filesystem: FileSystem, descriptor: int) -> None:
        self._lock = lock
        self.filesystem = filesystem
        self.descriptor = descriptor
        self.users = 0
        self.is_evicted = False

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self.users -= 1
            if self.is_evicted and not self.users:
                self.filesystem.close(self.descriptor)


class Descriptors:
    """Least-recently-used cache of open files. Thread-safe.

    Args:
        capacity: Maximum number of cached files; more are open only while more are borrowed.

    Attributes:
        capacity: Maximum number of cached files; may be changed.
    """

    def __init__(self, capacity: int = OPEN_FILES_MAX) -> None:
        self.capacity = capacity
        # Opening a file may call `evict_unused`, in the same thread.
        self._lock = threading.RLock()
        self._open: OrderedDict[tuple[FileSystem, Path], Borrowed] = OrderedDict()
        # No longer in use, but still counted as such.
        self._given_back: deque[Borrowed] = deque()
        OPEN_FILES.add_cache(self)

    def __len__(self) -> int:
        return len(self._open)

    def borrow(self, filesystem: FileSystem, path: Path, flags: int = os.O_RDWR) -> Borrowed:
        """Return an open file; opens it if needed. Enter it to get the descriptor.

        Args:
            filesystem: File operations.
            path: Path of the file.
            flags: Flags of `open`; used only if the file is not open yet.

        Raises:
            OSError: The file cannot be opened.
        """
        key = (filesystem, path)
        with self._lock:
            self._take_back()
            entry = self._open.get(key)
            if entry is None:
                entry = Borrowed(self._lock, filesystem, filesystem.open(path, flags))
                self._open[key] = entry
            else:
                self._open.move_to_end(key)
            entry.users += 1
            while len(self._open) > self.capacity:
                self._evict(next(iter(self._open)))
            return entry

    def borrow_open(self, filesystem: FileSystem, *paths: Path) -> tuple[Borrowed, ...] | None:
        """Return files that are open already; `give_back` must follow.

        Does not wait, so an event loop may call it. Returns None if one of the files is not open,
        or if another thread uses the cache, which may open a file.

        Args:
            filesystem: File operations.
            paths: Paths of the files.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            entries = []
            for path in paths:
                key = (filesystem, path)
                entry = self._open.get(key)
                if entry is None:
                    return None
                self._open.move_to_end(key)
                entries.append(entry)
            for entry in entries:
                entry.users += 1
            return tuple(entries)
        finally:
            self._lock.release()

    def give_back(self, borrowed: Iterable[Borrowed]) -> None:
        """End the use of files that `borrow_open` has returned.

        Does not wait: what another thread's use of the cache prevents now, the next use does.
        """
        self._given_back.extend(borrowed)
        if self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def evict(self, filesystem: FileSystem, path: Path) -> None:
        """Close a file as soon as it is not in use; it need not be open."""
        with self._lock:
            self._take_back()
            if (filesystem, path) in self._open:
                self._evict((filesystem, path))

    def evict_below(self, directory: Path) -> None:
        """Close all files below a directory as soon as they are not in use."""
        with self._lock:
            self._take_back()
            for key in [key for key in self._open if key[1].is_relative_to(directory)]:
                self._evict(key)

    def evict_unused(self) -> int:
        """Close half of the unused files, least recently used first; return how many.

        Returns 0 if another thread holds the lock for longer than `LOCK_SECONDS_MAX`.
        """
        if not self._lock.acquire(timeout=LOCK_SECONDS_MAX):
            return 0
        try:
            self._take_back()
            unused = [key for key, entry in self._open.items() if not entry.users]
            for key in unused[: (len(unused) + 1) // 2]:
                self._evict(key)
            return (len(unused) + 1) // 2
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close all unused files now, and the others at the end of their use."""
        with self._lock:
            self._take_back()
            for key in list(self._open):
                self._evict(key)

    def _take_back(self) -> None:
        """Count the files that were given back as unused.

        Who calls this may have nothing to do with them, and what was written to them is synced: a
        close that fails is nobody's failure.
        """
        while self._given_back:
            entry = self._given_back.popleft()
            entry.users -= 1
            if entry.is_evicted and not entry.users:
                with suppress(OSError):
                    entry.filesystem.close(entry.descriptor)

    def _evict(self, key: tuple[FileSystem, Path]) -> None:
        entry = self._open.pop(key)
        entry.is_evicted = True
        if not entry.users:
            entry.filesystem.close(entry.descriptor)


SHARED_DESCRIPTORS: Final = Descriptors(share_of_limit(OPEN_FILES_MAX))
"""Cache that all logs of the process share."""
