"""The limit of open files of the process: shared out to caches, and room made when it is met.

Files that nobody uses at the moment are kept open only to save the opening. When the process may
open no more (EMFILE), or the machine (ENFILE), the caches close some of them, and the file is
opened after all. So a process with a small limit works, only slower.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

ResultT = TypeVar("ResultT")

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""How the operating system says that no more files can be open, in this process or at all."""

SHED_SECONDS_MAX: Final = 0.05
"""Two threads that work on a cache each, and need a file, wait for each other no longer."""

CACHES_FILES_MAX: Final = 896
"""What all shared caches of the process keep open where its limit is large enough."""


def is_for_want_of_files(cause: BaseException) -> bool:
    """Return whether something failed because no more files can be open: a state that passes."""
    return isinstance(cause, OSError) and cause.errno in OUT_OF_FILES


def share_of_limit(count_max: int) -> int:
    """Return how many files a cache of the process keeps open, unless somebody says otherwise.

    Half of the limit is for the program itself. What is left is for all caches, which are never
    larger than 896 together.

    Args:
        count_max: What it keeps where the limit is large enough.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return count_max
    return share(count_max, limit // 2)


def share(count_max: int, files_max: int) -> int:
    """Return a cache's share of the files that all caches may keep open.

    Args:
        count_max: What it keeps where there is room for all of them.
        files_max: For all caches together.
    """
    return max(min(count_max, files_max * count_max // CACHES_FILES_MAX), 1)


class FilesCache(Protocol):
    """Something that keeps files open only to save their opening."""

    def shed(self) -> int:
        """Close about half of what it keeps and nobody uses; return how many those were.

        Called in any thread that needs a file, perhaps while it works on another cache: it waits
        for its own lock no longer than `SHED_SECONDS_MAX`.
        """


class OpenFiles:
    """Opens files for the storage, of this process's limit. Thread-safe.

    Attributes:
        numbers_end: No file of the storage keeps a descriptor with this number or a higher one:
            they are for others, who cannot make room. None: there are no others.
    """

    def __init__(self) -> None:
        self.numbers_end: int | None = None
        self._caches: WeakSet[FilesCache] = WeakSet()
        self._lock = threading.Lock()

    def add_cache(self, cache: FilesCache) -> None:
        """Take note of a cache, as long as somebody else has it."""
        with self._lock:
            self._caches.add(cache)

    def make_room(self) -> bool:
        """Let the caches close files that nobody uses; return whether there were any."""
        with self._lock:
            caches = list(self._caches)
        return sum([cache.shed() for cache in caches]) > 0

    def run(self, operation: Callable[[], ResultT]) -> ResultT:
        """Do something that takes a descriptor, once more behind `make_room` if there was none.

        Raises:
            OSError: It failed.
        """
        try:
            return operation()
        except OSError as error:
            if error.errno not in OUT_OF_FILES or not self.make_room():
                raise
        return operation()

    def open(self, path: Path, flags: int, mode: int) -> int:
        """Open a file as `os.open` does, closing others where there is no room for it.

        Raises:
            OSError: It cannot be opened; EMFILE also where only reserved numbers are left.
        """
        descriptor = self.run(partial(os.open, path, flags, mode))
        if self.numbers_end is None or descriptor < self.numbers_end:
            return descriptor
        return self._lowered(descriptor, self.numbers_end, path, flags)

    def _lowered(self, descriptor: int, end: int, path: Path, flags: int) -> int:
        """Return another descriptor of an open file, below `end`; the kernel gives the lowest."""
        try:
            self.make_room()
            lower = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 0)
            if lower < end:
                return lower
            os.close(lower)
            if flags & os.O_CREAT and flags & os.O_EXCL:
                # Whoever tries again wants to make it.
                with suppress(OSError):
                    path.unlink()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        finally:
            os.close(descriptor)


OPEN_FILES: Final = OpenFiles()
"""The one of this process: its limit holds for all that it does."""
