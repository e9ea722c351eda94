"""Directories of brokers in tests: in memory where possible, and never left behind.

A process that is killed cannot remove its directory, and one in memory would take that memory until
the machine restarts. So each directory is locked while its owner lives, and the next owner removes
those that are not.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = "amqp-server-test-"
"""Beginning of the name of each directory."""
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - mkdtemp makes the directory in it
"""Where Linux keeps files in memory."""
MEMORY_FREE_BYTES_MIN: Final = 512 << 20
"""Free bytes below which the memory's file system is not used: containers often have 64 MiB."""
ABANDONED_SECONDS: Final = 60.0
"""Age of a directory from which on a missing lock means that its owner has died."""


class TemporaryDirectory:
    """A directory of this process, from the call until `remove` or the end of the process.

    Args:
        parent: Existing directory in which it is made.

    Attributes:
        path: The directory.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, parent: Path) -> None:
        _remove_abandoned(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self._pid = os.getpid()
        atexit.register(self.remove)

    def remove(self) -> None:
        """Remove the directory with everything in it; a second call does nothing.

        In a fork of the process it does nothing either: the directory is its parent's.
        """
        if self._descriptor >= 0 and self._pid == os.getpid():
            atexit.unregister(self.remove)
            # Not an error of the test: the next broker tries again.
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def memory_directory() -> Path:
    """Return a directory in memory, or the one for temporary files where there is none."""
    with suppress(OSError):
        free = os.statvfs(MEMORY)
        is_roomy = free.f_bavail * free.f_frsize >= MEMORY_FREE_BYTES_MIN
        if is_roomy and os.access(MEMORY, os.R_OK | os.W_OK | os.X_OK):
            return MEMORY
    return disk_directory()


def disk_directory() -> Path:
    """Return the directory for temporary files: TMPDIR, or the system's."""
    return Path(tempfile.gettempdir())


@cache
def _remove_abandoned(parent: Path) -> None:
    """Remove the directories of processes that were killed; once for each parent."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(path: Path) -> None:
    status = path.lstat()
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < ABANDONED_SECONDS:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
