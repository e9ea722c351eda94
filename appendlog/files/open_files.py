"""Limit of open files of the process: shares for caches, and freeing descriptors at the limit.

Unused files stay open only to save opening them again. If the process may open no more files
(EMFILE), or the machine (ENFILE), the caches close some, and the file is opened after all. So a
process with a small limit works, only slower.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

ResultT = TypeVar("ResultT")

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of the operating system for too many open files, of this process or the machine."""

LOCK_SECONDS_MAX: Final = 0.05
"""Longest wait for the lock of a cache: two threads may each need files of the other's cache."""

CACHES_FILES_MAX: Final = 896
"""Total size of all shared caches of the process, if its limit of files allows that."""


def is_for_want_of_files(cause: BaseException) -> bool:
    """Return whether an error means that no more files can be open: a state that can pass."""
    return isinstance(cause, OSError) and cause.errno in OUT_OF_FILES


def share_of_limit(count_max: int) -> int:
    """Return the default size of a cache of open files, within the limit of the process.

    Half of the limit is for the program itself. The other half is for all caches, which together
    never have more than 896 files.

    Args:
        count_max: Size of the cache if the limit allows it.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return count_max
    return share(count_max, limit // 2)


def share(count_max: int, files_max: int) -> int:
    """Return a cache's share of the files that all caches may keep open.

    Args:
        count_max: Size of the cache if there is room for all caches.
        files_max: Limit for all caches together.
    """
    return max(min(count_max, files_max * count_max // CACHES_FILES_MAX), 1)


class FilesCache(Protocol):
    """Cache that keeps files open only to save opening them again."""

    def evict_unused(self) -> int:
        """Close about half of the unused files; return their number.

        Any thread that needs a file may call this, also while it uses another cache. So it waits
        for its own lock no longer than `LOCK_SECONDS_MAX`.
        """


class OpenFiles:
    """Opener of files for the storage, within this process's limit. Thread-safe.

    Attributes:
        numbers_end: Upper limit, exclusive, for descriptor numbers of storage files: the higher
            ones are for users that cannot free any. None means no limit.
    """

    def __init__(self) -> None:
        self.numbers_end: int | None = None
        self._caches: WeakSet[FilesCache] = WeakSet()
        self._lock = threading.Lock()

    def add_cache(self, cache: FilesCache) -> None:
        """Register a cache, as long as something else refers to it."""
        with self._lock:
            self._caches.add(cache)

    def make_room(self) -> bool:
        """Ask the caches to close unused files; return whether they closed any."""
        with self._lock:
            caches = list(self._caches)
        return sum([cache.evict_unused() for cache in caches]) > 0

    def run(self, operation: Callable[[], ResultT]) -> ResultT:
        """Run an operation that takes a descriptor; if there is none, call `make_room` and retry.

        Raises:
            OSError: The operation failed.
        """
        try:
            return operation()
        except OSError as error:
            if error.errno not in OUT_OF_FILES or not self.make_room():
                raise
        return operation()

    def open(self, path: Path, flags: int, mode: int) -> int:
        """Open a file as `os.open` does; close unused files if there are too many.

        Raises:
            OSError: The file cannot be opened; EMFILE also if only reserved numbers are free.
        """
        try:
            descriptor = os.open(path, flags, mode)
        except OSError as error:
            if error.errno not in OUT_OF_FILES or not self.make_room():
                raise
            descriptor = os.open(path, flags, mode)
        if self.numbers_end is None or descriptor < self.numbers_end:
            return descriptor
        return self._lowered(descriptor, self.numbers_end, path, flags)

    def _lowered(self, descriptor: int, end: int, path: Path, flags: int) -> int:
        """Return another descriptor of an open file, below `end`; the kernel gives the lowest."""
        lower: int | None = None
        try:
            self.make_room()
            # It fails where the number above the end was the very last one of the process.
            with suppress(OSError):
                lower = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 0)
        finally:
            os.close(descriptor)
        if lower is not None:
            if lower < end:
                return lower
            os.close(lower)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            # A retry will want to create the file.
            with suppress(OSError):
                path.unlink()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))


OPEN_FILES: Final = OpenFiles()
"""Instance of this process: the limit is for the whole process."""
