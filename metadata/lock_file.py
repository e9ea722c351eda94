"""Files that one process holds, and says so in.

An flock: the kernel drops it however the process ends, so a crash never leaves a stale lock.

Who unlinks such a file holds it, and who has locked one looks whether it still has its name: else
one process could hold an unlinked file while a second one holds its successor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final, Self

from metadata.errors import StorageLockedError

_PID_BYTES_MAX: Final = 32


class FileLock:
    """A lock on a file, held from `acquire` until `release`, or until the object is gone.

    An exception of a signal handler may come between any two operations. Whoever has the object
    before it acquires anything can release it afterwards, whatever was cut short.

    Args:
        path: The file; made where it is missing, unless the lock is shared. A file that is missing
            then is not locked: nobody has ever held it, or somebody has copied the directory
            without it.
        is_shared: Whether others may share it; nothing in the file is changed then.

    Attributes:
        path: As given.
    """

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        """Hold nothing yet."""
        self.path: Final = path
        self._is_shared: Final = is_shared
        self._file: FileIO | None = None

    def acquire(self) -> Self:
        """Lock the file, and return this lock.

        Raises:
            StorageLockedError: Another process, or this one, holds it so that this may not.
            OSError: It cannot be opened or written.
        """
        while True:
            try:
                file = FileIO(
                    self.path, "r" if self._is_shared else "r+", opener=_open_existing_or_new
                )
            except FileNotFoundError:
                if self._is_shared:
                    return self
                raise
            try:
                _lock(file.fileno(), self.path, is_shared=self._is_shared)
                if _has_its_name(file.fileno(), self.path):
                    self._file = file
                    return self
            finally:
                if self._file is None:
                    file.close()

    def release(self) -> None:
        """Give the file up; a second call does nothing. In the child of a fork the parent keeps it.

        What an exception cuts short, a second call finishes.
        """
        file = self._file
        if file is None or file.closed:
            return
        if not self._is_shared:
            _forget_pid(file.fileno())
        file.close()

    def remove(self) -> None:
        """Unlink the file, and give it up.

        Raises:
            OSError: It cannot be unlinked; it is still held.
        """
        self.path.unlink(missing_ok=True)
        self.release()

    def touch(self) -> None:
        """Say in the time of the file that its holder is there."""
        if self._file is not None and not self._file.closed:
            os.utime(self._file.fileno())


def lock_file(path: Path) -> int:
    """Lock a file for this process alone, making it where it is missing; return a descriptor.

    Raises:
        StorageLockedError: Another process, or this one, holds it, alone or with others.
        OSError: It cannot be opened or written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, path, is_shared=False)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unlock_file(descriptor: int) -> None:
    """Give a file up that `lock_file` has locked; in the child of a fork the parent keeps it."""
    _forget_pid(descriptor)
    os.close(descriptor)


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Keep others from locking a file for themselves; nothing in it is changed.

    A file that is missing is not locked: nobody has ever held it, or somebody has copied the
    directory without it.

    Raises:
        StorageLockedError: A process holds it alone.
        OSError: It cannot be opened.
    """
    lock = FileLock(path, is_shared=True).acquire()
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Tell whether a process holds a file alone; it is not locked for longer than this."""
    try:
        with shared_lock(path):
            return False
    except StorageLockedError:
        return True
    except OSError:
        return False


def holder(path: Path) -> int | None:
    """Return the process that holds a file alone, if one does and has written its number."""
    try:
        with shared_lock(path):
            return None
    except StorageLockedError as error:
        return error.pid
    except OSError:
        return None


def _open_existing_or_new(path: str, flags: int) -> int:
    if flags & os.O_RDWR:
        return os.open(path, flags | os.O_CREAT, 0o600)
    return os.open(path, flags | os.O_NONBLOCK)


def _lock(descriptor: int, path: Path, *, is_shared: bool) -> None:
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StorageLockedError(path, _read_pid(descriptor)) from None
    if not is_shared:
        os.ftruncate(descriptor, 0)
        _write_pid(descriptor)


def _has_its_name(descriptor: int, path: Path) -> bool:
    """Tell whether a file that was opened by a path is still the one that has it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _forget_pid(descriptor: int) -> None:
    # Only courtesy to people who look into the file: a full disk must not stop a release.
    with contextlib.suppress(OSError):
        if _read_pid(descriptor) == os.getpid():
            os.ftruncate(descriptor, 0)


def _write_pid(descriptor: int) -> None:
    try:
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        # Only courtesy to people who look into the file: a full disk must not stop a start.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _read_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, _PID_BYTES_MAX, 0).strip()
    return int(text) if text.isdigit() else None
