"""A lock on a file and on a directory at once: deleting the file frees nothing.

A lock file is an ordinary file. A tidy script, or a person who takes it for a stale one, deletes it
while a server runs; the next server would make another one, lock that, and append to the same
segments. The directory itself cannot be deleted while there is data in it, so it is locked too. The
file stays: it names the process, and earlier versions lock nothing else.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FILE_MODE
from appendlog.files.open_files import OPEN_FILES
from metadata.errors import StorageLockedError
from metadata.lock_file import HeldFile, is_at, read_holder, shared_lock

LOCK_NAME: Final = "LOCK"
"""The file that a running server holds."""

WRITER_NAME: Final = "WRITER"
"""The file that the one embedding program holds that writes logs."""

LOGS_NAME: Final = "logs"
"""The directory that it holds with it: the data directory is shared by all that embed logs."""

_NO_DIRECTORY_LOCKS: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
)
"""How a file system says that it locks files only; NFS wants a descriptor that can write."""


class DoubleLock:
    """Which file and which directory stand for one claim.

    Args:
        file: Made where it is missing, by whoever holds the lock alone.
        directory: Locked with it.
    """

    def __init__(self, file: Path, directory: Path) -> None:
        """Lock nothing."""
        self.file = file
        self.directory = directory

    @classmethod
    def of_server(cls, storage_path: Path) -> DoubleLock:
        """Return what a server holds alone, and what those share that keep servers away."""
        return cls(storage_path / LOCK_NAME, storage_path)

    @classmethod
    def of_writer(cls, storage_path: Path) -> DoubleLock:
        """Return what the one embedding program holds that writes logs."""
        return cls(storage_path / WRITER_NAME, storage_path / LOGS_NAME)

    def hold(self) -> HeldLock:
        """Lock both for this process alone; the directory must be there.

        Raises:
            StorageLockedError: Another process, or this one, holds one of them.
            OSError: One of them cannot be opened, or the file cannot be written.
        """
        directory = self._lock_directory(fcntl.LOCK_EX)
        try:
            return HeldLock(self, directory, HeldFile(self.file))
        except BaseException:
            os.close(directory)
            raise

    @contextmanager
    def share(self) -> Iterator[None]:
        """Keep others from holding it alone. What of it is missing is not locked, nor made.

        Raises:
            StorageLockedError: A process holds it alone.
            OSError: One of them cannot be opened.
        """
        with ExitStack() as held:
            with suppress(FileNotFoundError):
                held.callback(os.close, self._lock_directory(fcntl.LOCK_SH))
            held.enter_context(shared_lock(self.file))
            yield

    def is_held(self) -> bool:
        """Tell whether a process holds it alone; it is not locked for longer than this."""
        try:
            with self.share():
                return False
        except StorageLockedError:
            return True
        except OSError:
            return False

    def holder(self) -> int | None:
        """Return the process that holds it alone, if one does and has written its number."""
        try:
            with self.share():
                return None
        except StorageLockedError as error:
            return error.pid
        except OSError:
            return None

    def _lock_directory(self, operation: int) -> int:
        """Return a descriptor of the directory, locked where the file system can do that."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = OPEN_FILES.open(self.directory, flags, FILE_MODE)
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StorageLockedError(self.file, read_holder(self.file)) from None
        except OSError as error:
            if error.errno not in _NO_DIRECTORY_LOCKS:
                os.close(descriptor)
                raise
        return descriptor


class HeldLock:
    """What `DoubleLock.hold` has locked, until `release` or the end of the process."""

    def __init__(self, lock: DoubleLock, directory: int, file: HeldFile) -> None:
        """Own what is locked already; use `DoubleLock.hold`."""
        self._lock = lock
        self._directory = directory
        self._file = file

    def renew(self) -> bool:
        """Make and lock the file again if it was deleted or replaced; return whether it was.

        Raises:
            StorageLockedError: Another process has locked the file that stands there now. It
                knows nothing of directory locks, or the file system has none.
            OSError: The directory was moved or replaced, or the file cannot be made.
        """
        if not is_at(self._directory, self._lock.directory):
            raise OSError(errno.ESTALE, "the directory was moved or replaced")
        return self._file.renew()

    def release(self) -> None:
        """Give both up; a second call does nothing, or finishes the first."""
        self._file.release()
        self.__del__()

    def __del__(self) -> None:
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)
