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
        held = HeldLock(self)
        held.lock()
        return held

    @contextmanager
    def share(self) -> Iterator[None]:
        """Keep others from holding it alone. What of it is missing is not locked, nor made.

        Raises:
            StorageLockedError: A process holds it alone.
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


class _HeldDirectory:
    """A directory and its lock, from `lock` to `release` or until nobody has this object any more.

    Args:
        double: Which directory, and which file names its holder.
    """

    def __init__(self, double: DoubleLock) -> None:
        self._double = double
        self._descriptor = -1

    def lock(self, operation: int) -> None:
        """Open it, and lock it where the file system can do that.

        Raises:
            StorageLockedError: Another process, or this one, holds it.
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
        """Tell whether a path names it."""
        return is_at(self._descriptor, path)

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # Calls nothing of ours: an exception of a signal handler would end it halfway.
        if self._descriptor >= 0:
            os.close(self._descriptor)


class HeldLock:
    """The file and the directory of a `DoubleLock`, from `lock` to `release`.

    Who must be able to give them up whatever happens has this object before they are locked: an
    exception of a signal handler may come between the locking and whoever asked for it.
    """

    def __init__(self, double: DoubleLock) -> None:
        self._double = double
        self._directory = _HeldDirectory(double)
        self._file = HeldFile(double.file)

    def lock(self) -> None:
        """Lock both for this process alone; the directory must be there.

        Raises:
            StorageLockedError: Another process, or this one, holds one of them.
            OSError: One of them cannot be opened, or the file cannot be written.
        """
        try:
            self._directory.lock(fcntl.LOCK_EX)
            self._file.lock()
        except BaseException:
            self.release()
            raise

    def renew(self) -> bool:
        """Make and lock the file again if it was deleted or replaced; return whether it was.

        Raises:
            StorageLockedError: Another process has locked the file that stands there now. It
                knows nothing of directory locks, or the file system has none.
            OSError: The directory was moved or replaced, or the file cannot be made.
        """
        if not self._directory.is_at(self._double.directory):
            raise OSError(errno.ESTALE, "the directory was moved or replaced")
        return self._file.renew()

    def release(self) -> None:
        """Give both up; a second call does nothing, or finishes the first."""
        self._file.release()
        self._directory.release()
