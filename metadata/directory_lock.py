"""Claim a data directory for this process and check its format version.

Two servers on one directory would each append to the other's segments, so the claim comes before
anything else is read. It is an flock on the LOCK file: the kernel drops it however the process
ends, so a crash never leaves a stale lock, and the file itself is never unlinked (an unlinked
LOCK could be held by one process while a second locks its successor).
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError
from metadata.lock_file import holder, lock_file, unlock_file

FORMAT_VERSION: Final = "1"
"""What the FORMAT file says; a directory of version 1 is readable for ever."""
FORMAT_VERSIONS_TAKEN_OVER: Final = ("0-unstable",)
"""Earlier versions that a start turns into this one: every file of theirs is valid in it."""

LOCK_NAME: Final = "LOCK"
"""The file that a running server holds."""

WRITER_NAME: Final = "WRITER"
"""The file that the one embedding program holds that writes logs."""

_FORMAT_NAME: Final = "FORMAT"
_FORMAT_BYTES_MAX: Final = 64
# FORMAT is written before any of these is made, so finding one without FORMAT means that the
# directory is damaged or somebody else's.
_DATA_NAMES: Final = ("metadata", "logs", "offsets", "transactions")


class DirectoryLock:
    """Exclusive claim on a data directory, from `acquire` to `release`.

    Attributes:
        storage_path: The claimed directory.
    """

    def __init__(self, storage_path: Path, descriptor: int) -> None:
        """Own an already locked descriptor; use `acquire`."""
        self.storage_path = storage_path
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, storage_path: Path) -> Self:
        """Create the directory where needed, lock it, and check or write its format version.

        Blocks on the disk: call it in a worker thread when a loop is running.

        Args:
            storage_path: The data directory; missing parents are created.

        Returns:
            The lock, held until `release` or the end of the process.

        Raises:
            StorageLockedError: Another process, or this one, holds the directory.
            StorageFormatError: The data there is of another format version.
            StorageUnavailableError: The directory cannot be created, opened or written.
        """
        try:
            storage_path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = lock_file(storage_path / LOCK_NAME)
        except StorageLockedError as error:
            # Programs that embed logs share LOCK; the one that writes says so in WRITER.
            pid = error.pid or holder(storage_path / WRITER_NAME)
            raise StorageLockedError(error.path, pid) from None
        except OSError as cause:
            raise StorageUnavailableError(storage_path, cause) from cause
        lock = cls(storage_path, descriptor)
        try:
            _check_format(storage_path)
        except OSError as cause:
            lock.release()
            raise StorageUnavailableError(storage_path / _FORMAT_NAME, cause) from cause
        except StorageFormatError:
            lock.release()
            raise
        return lock

    def release(self) -> None:
        """Give the directory up; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            unlock_file(descriptor)

    def __enter__(self) -> Self:
        """Return the held lock."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self.release()


def _check_format(storage_path: Path) -> None:
    path = storage_path / _FORMAT_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            content = file.read(_FORMAT_BYTES_MAX)
    except FileNotFoundError:
        if any((storage_path / name).exists() for name in _DATA_NAMES):
            raise StorageFormatError(path, None, FORMAT_VERSION) from None
        _write_format(path)
        return
    found = content.decode("ascii", "backslashreplace").strip()
    if found in FORMAT_VERSIONS_TAKEN_OVER:
        # From here on an older server must not touch it any more.
        _write_format(path)
    elif found != FORMAT_VERSION:
        raise StorageFormatError(path, found, FORMAT_VERSION)


def _write_format(path: Path) -> None:
    temporary = path.with_name(f"{_FORMAT_NAME}.tmp")
    with temporary.open("wb") as file:
        file.write(f"{FORMAT_VERSION}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
