"""Who may do what with a data directory that several processes share.

    LOCK                     shared by all that embed its logs: no server starts meanwhile
    WRITER                   the one process that appends and removes
    locks/<group>/<log>      the one process that consumes that log for that group
    offsets/LOCK             held for the time of one round of checkpoints

All are locks of the kernel (flock), gone with the process however it ends. With LOCK goes a lock on
the data directory, with WRITER one on `logs`, with offsets/LOCK one on `offsets`: deleting these
files lets nobody in. Those of groups are looked at before each commit.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.filesystem import DIRECTORY_MODE, FileSystem
from metadata.data_format import DataFormat
from metadata.directory_lock import DirectoryLock
from metadata.double_lock import LOCK_NAME, LOGS_NAME, WRITER_NAME, DoubleLock
from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError
from metadata.lock_file import HeldFile
from metadata.names import encode_name
from metadata.reading_lock import check_data_directory
from metadata.upgrade import upgrade_directory
from offsets.errors import GroupLockedError

_ROUND_WAIT_SECONDS: Final = 30.0
_ROUND_LOOK_SECONDS: Final = 0.002


class Claim:
    """Something that is held until it is released."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._held = ExitStack()

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        self._held.close()

    @classmethod
    def as_writer(cls, root: Path) -> Self:
        """Claim a data directory for writing, making it where it is missing.

        Raises:
            StorageLockedError: Another process, or this one, writes to it, or a server runs on it.
            StorageFormatError: It is of another format version.
            StorageUnavailableError: It cannot be made, opened or written.
        """
        try:
            directories = DurableDirectories(existing_root(FileSystem(), root))
            directories.make(FileSystem(), root)
            directories.sync(FileSystem(), root)
        except OSError as cause:
            raise StorageUnavailableError(root, cause) from cause
        if not _is_data_directory(root):
            # Makes LOCK and FORMAT.
            DirectoryLock.acquire(root).release()
        claim = cls.as_member(root)
        try:
            # Safe from here on: logs take for safe what is there when they are opened.
            logs = DurableDirectories(root)
            logs.make(FileSystem(), root / LOGS_NAME)
            logs.sync(FileSystem(), root / LOGS_NAME)
            claim._held.callback(DoubleLock.of_writer(root).hold().release)
        except OSError as cause:
            claim.release()
            raise StorageUnavailableError(root / WRITER_NAME, cause) from cause
        except BaseException:
            claim.release()
            raise
        return claim

    @classmethod
    def as_member(cls, root: Path) -> Self:
        """Keep servers off a data directory while this process reads and commits there.

        Raises:
            StorageLockedError: A server runs on it, or it is of an earlier version and another
                process uses it: the upgrade needs it alone.
            StorageFormatError: It is of another format version.
            StorageUnavailableError: There is none (a writer makes it), or it cannot be written.
            DocumentWriteError: It is of an earlier version, and cannot be upgraded.
        """
        if check_data_directory(root) is not DataFormat.CURRENT:
            upgrade_directory(root)
        claim = cls()
        lock = DoubleLock.of_server(root)
        try:
            claim._held.enter_context(lock.share())
        except OSError as cause:
            raise StorageUnavailableError(lock.file, cause) from cause
        return claim

    @staticmethod
    def as_consumer(root: Path, group: str, log: str, incarnation: UUID) -> GroupClaim:
        """Claim one log for one group.

        Raises:
            GroupLockedError: Another process, or this one, consumes it for that group.
            StorageUnavailableError: The lock cannot be made or opened.
        """
        claim = GroupClaim(root / "locks" / encode_name(group) / str(incarnation), group, log)
        claim.renew()
        return claim

    @classmethod
    def for_a_round(cls, directory: Path) -> Self:
        """Wait until no other process writes checkpoints, for 30 seconds at most.

        Args:
            directory: The `offsets` directory; made where it is missing.

        Raises:
            StorageLockedError: A process held it all the time; it must have been stopped.
            StorageUnavailableError: The lock cannot be made or opened.
        """
        lock = DoubleLock(directory / LOCK_NAME, directory)
        claim = cls()
        deadline = time.monotonic() + _ROUND_WAIT_SECONDS
        try:
            directory.mkdir(DIRECTORY_MODE, exist_ok=True)
            while True:
                try:
                    claim._held.callback(lock.hold().release)
                except StorageLockedError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_ROUND_LOOK_SECONDS)
                else:
                    return claim
        except OSError as cause:
            raise StorageUnavailableError(lock.file, cause) from cause

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class GroupClaim(Claim):
    """One log, claimed for one group."""

    def __init__(self, path: Path, group: str, log: str) -> None:
        """Hold nothing yet; use `Claim.as_consumer`."""
        super().__init__()
        self._path = path
        self._group = group
        self._log = log
        self._file: HeldFile | None = None

    def renew(self) -> None:
        """Claim it, or claim it again where somebody has deleted the file.

        Raises:
            GroupLockedError: Another process, or this one, consumes it for that group.
            StorageUnavailableError: The lock cannot be made or opened.
        """
        try:
            for directory in (self._path.parent.parent, self._path.parent):
                directory.mkdir(DIRECTORY_MODE, exist_ok=True)
            if self._file is None:
                self._file = HeldFile(self._path)
                self._held.callback(self._file.release)
            else:
                self._file.renew()
        except StorageLockedError as error:
            raise GroupLockedError(self._group, self._log, error.pid) from None
        except OSError as cause:
            raise StorageUnavailableError(self._path, cause) from cause


def _is_data_directory(root: Path) -> bool:
    try:
        check_data_directory(root)
    except StorageFormatError as error:
        if error.found is not None:
            raise
        return False
    return True
