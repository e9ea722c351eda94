"""A lock on a file and on a directory at once: deleting the file does not unlock anything.

A lock file is an ordinary file. A cleanup script, or a person who takes it for a stale one, may
delete it while a server runs. The next server would create another, lock it, and append to the same
segments. The directory itself cannot be deleted while it contains data, so it is locked as well.
The file is still needed: it contains the process number, and earlier versions lock nothing else.
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
"""File that a running server locks."""

WRITER_NAME: Final = "WRITER"
"""File that the embedding program which writes logs locks."""

LOGS_NAME: Final = "logs"
"""Directory that this program locks too; all embedding programs share the data directory."""

_NO_DIRECTORY_LOCKS: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
)
"""Errors of file systems that lock only files; NFS requires a writable descriptor."""


class DoubleLock:
    """The file and the directory of one lock.

    Args:
        file: Lock file; created if it is missing when the lock is taken exclusively.
        directory: Directory that is locked with it.
    """

    def __init__(self, file: Path, directory: Path) -> None:
        self.file = file
        self.directory = directory

    @classmethod
    def of_server(cls, storage_path: Path) -> DoubleLock:
        """Return the lock that a server takes exclusively and readers share to keep it out."""
        return cls(storage_path / LOCK_NAME, storage_path)

    @classmethod
    def of_writer(cls, storage_path: Path) -> DoubleLock:
        """Return the lock of the one embedding program that writes logs."""
        return cls(storage_path / WRITER_NAME, storage_path / LOGS_NAME)

    def hold(self) -> HeldLock:
        """Lock both exclusively; the directory must exist.

        Raises:
            StorageLockedError: Another process, or this one, has locked one of them.
            OSError: One of them cannot be opened, or the file cannot be written.
        """
        held = HeldLock(self)
        held.lock()
        return held

    @contextmanager
    def share(self) -> Iterator[None]:
        """Keep other processes from locking exclusively. A missing file or directory is skipped.

        Raises:
            StorageLockedError: A process has locked it exclusively.
            OSError: One of them cannot be opened.
        """
        with ExitStack() as held:
            directory = _HeldDirectory(self)
            held.callback(directory.release)
            with suppress(FileNotFoundError):
                directory.lock(fcntl.LOCK_SH)
            held.enter_context(shared_lock(self.file))
            yield

    def is_held(self) -> bool:
        """Return whether a process has the lock exclusively; takes it only for a moment."""
        try:
            with self.share():
                return False
        except StorageLockedError:
            return True
        except OSError:
            return False

    def holder(self) -> int | None:
        """Return the process that has the lock exclusively, if it has written its number."""
        try:
            with self.share():
                return None
        except StorageLockedError as error:
            return error.pid
        except OSError:
            return None


class _HeldDirectory:
    """A directory and its lock, from `lock` to `release` or the end of this object.

    Args:
        double: Lock that names the directory, and the file with the holder's process number.
    """

    def __init__(self, double: DoubleLock) -> None:
        self._double = double
        self._descriptor = -1

    def lock(self, operation: int) -> None:
        """Open the directory, and lock it if the file system supports that.

        Raises:
            StorageLockedError: Another process, or this one, has locked it.
            OSError: It cannot be opened.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._descriptor = OPEN_FILES.open(self._double.directory, flags, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            file = self._double.file
            raise StorageLockedError(file, read_holder(file)) from None
        except BaseException as error:
            if not isinstance(error, OSError) or error.errno not in _NO_DIRECTORY_LOCKS:
                self.release()
                raise

    def is_at(self, path: Path) -> bool:
        """Return whether a path still names the opened directory."""
        return is_at(self._descriptor, path)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # Call no function of ours here: an exception of a signal handler could interrupt it.
        if self._descriptor >= 0:
            os.close(self._descriptor)


class HeldLock:
    """Locked file and directory of a `DoubleLock`, from `lock` to `release`.

    Create this object before locking, so that it can be released whatever happens: an exception of
    a signal handler may come between taking the lock and returning it.
    """

    def __init__(self, double: DoubleLock) -> None:
        self._double = double
        self._directory = _HeldDirectory(double)
        self._file = HeldFile(double.file)

    def lock(self) -> None:
        """Lock both exclusively; the directory must exist.

        Raises:
            StorageLockedError: Another process, or this one, has locked one of them.
            OSError: One of them cannot be opened, or the file cannot be written.
        """
        try:
            self._directory.lock(fcntl.LOCK_EX)
            self._file.lock()
        except BaseException:
            self.release()
            raise

    def renew(self) -> bool:
        """Create and lock the file again if it was deleted or replaced; return whether it was.

        Raises:
            StorageLockedError: Another process has locked the file that is there now. That process
                uses no directory locks, or the file system has none.
            OSError: The directory was moved or replaced, or the file cannot be created.
        """
        if not self._directory.is_at(self._double.directory):
            raise OSError(errno.ESTALE, "the directory was moved or replaced")
        return self._file.renew()

    def release(self) -> None:
        """Release both; a second call does nothing, or completes an interrupted first one."""
        self._file.release()
        self._directory.release()
