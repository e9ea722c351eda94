"""Lock files that contain the number of the process which has locked them.

The lock is an flock. The kernel releases it however the process ends, so a crash leaves no stale
lock.

A process unlinks such a file only while it has locked it. A process that has locked one checks that
the file still has its name. Otherwise one process could lock an unlinked file while another locks
its successor. `DoubleLock` protects against programs that unlink it while it is locked.

An exception of a signal handler may come between any two calls. So each lock belongs to an object
that releases it at the end of its life, and an interrupted release can be repeated.
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
    """A file that this process locks exclusively, from `lock` to `release` or the process's end.

    Create this object before locking, so that it can be released whatever happens.

    Args:
        path: Path of the file; created if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __del__(self) -> None:
        # Call no function of ours here: an exception of a signal handler could interrupt it.
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def lock(self) -> None:
        """Lock the file; create it if it is missing.

        Raises:
            StorageLockedError: Another process, or this one, has locked it, exclusively or shared.
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
            # Its holder has removed the file after this process opened it and before it locked it.
            self._close()

    def renew(self) -> bool:
        """Create and lock the file again if it was deleted or replaced; return whether it was.

        Raises:
            StorageLockedError: Another process has locked the file that is there now.
            OSError: The file cannot be created.
        """
        if is_at(self._descriptor, self._path):
            return False
        successor = hold_file(self._path)
        self._descriptor, successor._descriptor = successor._descriptor, self._descriptor
        successor._close()
        return True

    def release(self) -> None:
        """Release the lock; a second call does nothing, or completes an interrupted first one."""
        if self._descriptor >= 0:
            _clear_pid(self._descriptor)
            self._close()

    def remove(self) -> None:
        """Unlink the file if this object still has it locked, and release the lock.

        Raises:
            OSError: The file cannot be unlinked; it is still locked.
        """
        if self._descriptor >= 0 and is_at(self._descriptor, self._path):
            self._path.unlink(missing_ok=True)
        self.release()

    def touch(self) -> None:
        """Update the file's time, which shows that its holder is alive."""
        if self._descriptor >= 0:
            os.utime(self._descriptor)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def hold_file(path: Path) -> HeldFile:
    """Lock a file exclusively, creating it if it is missing; return the lock.

    Raises:
        StorageLockedError: Another process, or this one, has locked it, exclusively or shared.
        OSError: It cannot be opened or written.
    """
    held = HeldFile(path)
    held.lock()
    return held


def is_at(descriptor: int, path: Path) -> bool:
    """Return whether a path names the opened file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Keep other processes from locking a file exclusively; changes nothing in it.

    A missing file is not locked: no process has ever locked it, or the directory was copied without
    it.

    Raises:
        StorageLockedError: A process has locked it exclusively.
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
    """Return the process number in the file, whether or not that process has locked it."""
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
    """Return whether a process has locked a file exclusively; locks it only for a moment."""
    try:
        with shared_lock(path):
            return False
    except StorageLockedError:
        return True
    except OSError:
        return False


def _clear_pid(descriptor: int) -> None:
    # The number only informs people who open the file: a full disk must not prevent a release.
    with contextlib.suppress(OSError):
        if _read_pid(descriptor) == os.getpid():
            os.ftruncate(descriptor, 0)


def _write_pid(descriptor: int) -> None:
    try:
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        # The number only informs people who open the file: a full disk must not prevent a start.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _read_pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, _PID_BYTES_MAX, 0).strip()
    return int(text) if text.isdigit() else None
