"""Locks a data directory for this process and checks its format version.

Two servers on one directory would each append to the other's segments, so the lock comes before
anything else is read. It is an flock on the LOCK file and on the directory itself. The kernel
releases it however the process ends, so a crash leaves no stale lock, and deleting LOCK does not
unlock anything.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from appendlog.files.filesystem import FileSystem
from metadata.data_format import (
    FORMAT_NAME,
    FORMAT_VERSION,
    DataFormat,
    begin_format,
    write_format,
)
from metadata.double_lock import DoubleLock, HeldLock
from metadata.errors import StorageLockedError, StorageUnavailableError


class DirectoryLock:
    """Exclusive lock on a data directory, from `acquire` to `release`.

    Attributes:
        storage_path: The locked directory.
        is_upgrade: Whether it has an earlier version, or its upgrade was interrupted: documents
            without a checksum are valid until `finish_upgrade`.
    """

    def __init__(self, storage_path: Path, held: HeldLock, filesystem: FileSystem) -> None:
        """Wrap locks that are held already; use `acquire` instead."""
        self.storage_path = storage_path
        self.is_upgrade = False
        self._held = held
        self._filesystem = filesystem

    @classmethod
    def acquire(cls, storage_path: Path, filesystem: FileSystem | None = None) -> Self:
        """Create the directory if it is missing, lock it, and check or write its format version.

        Afterwards programs that know only earlier versions refuse the directory. Blocks on the
        disk: call it in a worker thread while an event loop runs.

        Args:
            storage_path: The data directory; missing parents are created.
            filesystem: File operations for FORMAT; by default the operating system's.

        Returns:
            The lock, held until `release` or the end of the process.

        Raises:
            StorageLockedError: Another process, or this one, has locked the directory.
            StorageFormatError: The data has another format version.
            StorageUnavailableError: The directory cannot be created, opened or written.
        """
        try:
            storage_path.mkdir(mode=0o700, parents=True, exist_ok=True)
            held = DoubleLock.of_server(storage_path).hold()
        except StorageLockedError as error:
            # Embedding programs share LOCK; the one that writes has its number in WRITER.
            pid = error.pid or DoubleLock.of_writer(storage_path).holder()
            raise StorageLockedError(error.path, pid) from None
        except OSError as cause:
            raise StorageUnavailableError(storage_path, cause) from cause
        lock = cls(storage_path, held, filesystem or FileSystem())
        try:
            data_format = begin_format(storage_path, lock._filesystem)
            lock.is_upgrade = data_format is DataFormat.UPGRADING
        except OSError as cause:
            lock.release()
            raise StorageUnavailableError(storage_path / FORMAT_NAME, cause) from cause
        except BaseException:
            lock.release()
            raise
        return lock

    def finish_upgrade(self) -> None:
        """Record that every document has a checksum: one without is damage from now on.

        Raises:
            StorageUnavailableError: The disk refused; the next start resumes the upgrade.
        """
        try:
            write_format(self.storage_path, FORMAT_VERSION, self._filesystem)
        except OSError as cause:
            raise StorageUnavailableError(self.storage_path / FORMAT_NAME, cause) from cause
        self.is_upgrade = False

    def renew(self) -> bool:
        """Create LOCK again if it was deleted or replaced; return whether it was.

        During that time another process could lock the directory only if it uses LOCK alone. Blocks
        on the disk.

        Raises:
            StorageLockedError: Another process has locked the directory.
            StorageUnavailableError: The directory was moved, or LOCK cannot be created.
        """
        try:
            return self._held.renew()
        except OSError as cause:
            raise StorageUnavailableError(self.storage_path, cause) from cause

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._held.release()

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
