"""Files that one process holds, and says so in.

An flock: the kernel drops it however the process ends, so a crash never leaves a stale lock.

Who unlinks such a file holds it, and who has locked one looks whether it still has its name: else
one process could hold an unlinked file while a second one holds its successor. Against others who
unlink it while it is held there is `DoubleLock`.

An exception of a signal handler may come between any two calls. What is held belongs to an object
that releases it when it is gone, and a release that was cut short can be done again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FILE_MODE
from appendlog.files.open_files import OPEN_FILES
from metadata.errors import StorageLockedError

_PID_BYTES_MAX: Final = 32
_LOOK_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class HeldFile:
    """A file that this process locks alone, from `lock` to `release` or the end of the process.

    Who must be able to give it up whatever happens has this object before it is locked.

    Args:
        path: Made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __del__(self) -> None:
        # Calls nothing of ours: an exception of a signal handler would end it halfway.
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def lock(self) -> None:
        """Lock it, making it where it is missing.

        Raises:
            StorageLockedError: Another process, or this one, holds it, alone or with others.
            OSError: It cannot be opened or written.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        while True:
            self._descriptor = OPEN_FILES.open(self._path, flags, FILE_MODE)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_at(self._descriptor, self._path):
                    os.ftruncate(self._descriptor, 0)
                    _write_pid(self._descriptor)
                    return
            except BlockingIOError:
                pid = _read_pid(self._descriptor)
                self._close()
                raise StorageLockedError(self._path, pid) from None
            except BaseException:
                self._close()
                raise
            # Its holder has removed it between the opening and the locking.
            self._close()

    def renew(self) -> bool:
        """Make and lock the file again if it was deleted or replaced; return whether it was.

        Raises:
            StorageLockedError: Another process has locked the file that stands there now.
            OSError: It cannot be made.
        """
        if is_at(self._descriptor, self._path):
            return False
        successor = hold_file(self._path)
        self._descriptor, successor._descriptor = successor._descriptor, self._descriptor
        successor._close()
        return True

    def release(self) -> None:
        """Give it up; a second call does nothing, or finishes the first."""
        if self._descriptor >= 0:
            _forget_pid(self._descriptor)
            self._close()

    def remove(self) -> None:
        """Unlink the file, if this still holds it, and give it up.

        Raises:
            OSError: It cannot be unlinked; it is still held.
        """
        if self._descriptor >= 0 and is_at(self._descriptor, self._path):
            self._path.unlink(missing_ok=True)
        self.release()

    def touch(self) -> None:
        """Say in the time of the file that its holder is there."""
        if self._descriptor >= 0:
            os.utime(self._descriptor)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def hold_file(path: Path) -> HeldFile:
    """Return a file that this process has locked alone, made where it is missing.

    Raises:
        StorageLockedError: Another process, or this one, holds it, alone or with others.
        OSError: It cannot be opened or written.
    """
    held = HeldFile(path)
    held.lock()
    return held


def is_at(descriptor: int, path: Path) -> bool:
    """Tell whether a path names what is open."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Keep others from locking a file for themselves; nothing in it is changed.

    A file that is missing is not locked: nobody has ever held it, or somebody has copied the
    directory without it.

    Raises:
        StorageLockedError: A process holds it alone.
        OSError: It cannot be opened.
    """
    try:
        descriptor = OPEN_FILES.open(path, _LOOK_FLAGS, FILE_MODE)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageLockedError(path, _read_pid(descriptor)) from None
        yield
    finally:
        os.close(descriptor)


def read_holder(path: Path) -> int | None:
    """Return the process that the file names, whether or not it holds anything."""
    try:
        descriptor = OPEN_FILES.open(path, _LOOK_FLAGS, FILE_MODE)
    except OSError:
        return None
    try:
        return _read_pid(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Tell whether a process holds a file alone; it is not locked for longer than this."""
    try:
        with shared_lock(path):
            return False
    except StorageLockedError:
        return True
    except OSError:
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
