"""Locks that regulate the access of several processes to a data directory.

    LOCK                     shared by all processes that embed its logs: no server starts
    WRITER                   held by the one process that appends and removes
    locks/<group>/<log>      held by the one process that consumes that log for that group
    offsets/LOCK             held during one round of checkpoints

All are locks of the kernel (flock), released however the process ends. LOCK is combined with a lock
on the data directory, WRITER with one on `logs`, offsets/LOCK with one on `offsets`: deleting these
files gives no other process access. The locks of groups are checked before each commit.
"""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Protocol, Self
from uuid import UUID

from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.filesystem import DIRECTORY_MODE, FileSystem
from metadata.data_format import DataFormat
from metadata.directory_lock import DirectoryLock
from metadata.double_lock import LOCK_NAME, LOGS_NAME, WRITER_NAME, DoubleLock, HeldLock
from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError
from metadata.lock_file import HeldFile, hold_file, is_locked
from metadata.names import encode_name
from metadata.reading_lock import check_data_directory
from metadata.upgrade import upgrade_directory
from offsets.errors import GroupLockedError

_ROUND_WAIT_SECONDS: Final = 30.0
_ROUND_LOOK_SECONDS: Final = 0.002
_CLAIM_LOOKS: Final = 50


class Releasable(Protocol):
    """Resource that a claim holds."""

    def release(self) -> None:
        """Release the resource. A second call completes an interrupted one, or does nothing."""


class Claim:
    """Resources that are held until they are released."""

    def __init__(self) -> None:
        self._held: list[Releasable] = []

    def release(self) -> None:
        """Release all resources. A second call completes an interrupted one, or does nothing."""
        for each in reversed(self._held):
            each.release()

    @classmethod
    def as_writer(cls, root: Path) -> Self:
        """Claim a data directory for writing; makes the directory if it is missing.

        Raises:
            StorageLockedError: A process, perhaps this one, writes to it, or a server uses it.
            StorageFormatError: The directory is of another format version.
            StorageUnavailableError: The directory cannot be made, opened or written.
        """
        try:
            directories = DurableDirectories(existing_root(FileSystem(), root))
            directories.make(FileSystem(), root)
            directories.sync(FileSystem(), root)
        except OSError as cause:
            raise StorageUnavailableError(root, cause) from cause
        if not _is_data_directory(root):
            # This makes LOCK and FORMAT.
            DirectoryLock.acquire(root).release()
        claim = cls.as_member(root)
        try:
            # Make it durable now: logs assume that directories existing at their opening are.
            logs = DurableDirectories(root)
            logs.make(FileSystem(), root / LOGS_NAME)
            logs.sync(FileSystem(), root / LOGS_NAME)
            held = HeldLock(DoubleLock.of_writer(root))
            claim._held.append(held)
            held.lock()
        except OSError as cause:
            claim.release()
            raise StorageUnavailableError(root / WRITER_NAME, cause) from cause
        except BaseException:
            claim.release()
            raise
        return claim

    @classmethod
    def as_member(cls, root: Path) -> Self:
        """Claim a data directory for reading and commits, which keeps servers from starting on it.

        Raises:
            StorageLockedError: A server uses it. Or it is of an earlier version and another process
                uses it: the upgrade needs exclusive access.
            StorageFormatError: The directory is of another format version.
            StorageUnavailableError: There is no data directory (a writer makes it), or it cannot be
                written.
            DocumentWriteError: The directory is of an earlier version, and cannot be upgraded.
        """
        _upgrade(root)
        claim = cls()
        lock = DoubleLock.of_server(root)
        try:
            claim._held.append(_Shared(lock))
        except OSError as cause:
            raise StorageUnavailableError(lock.file, cause) from cause
        return claim

    @staticmethod
    def as_consumer(root: Path, group: str, log: str, incarnation: UUID) -> GroupClaim:
        """Claim one log for one group.

        Raises:
            GroupLockedError: A process, perhaps this one, consumes the log for that group.
            StorageUnavailableError: The lock file cannot be made or opened.
        """
        claim = GroupClaim(consumer_lock_path(root, group, incarnation), group, log)
        claim.renew()
        return claim

    @classmethod
    def as_round_writer(cls, directory: Path) -> Self:
        """Wait up to 30 seconds until no other process writes checkpoints, and claim that.

        Args:
            directory: Directory `offsets`; made if it is missing.

        Raises:
            StorageLockedError: Another process held the lock all the time; it is probably stopped.
            StorageUnavailableError: The lock file cannot be made or opened.
        """
        claim = cls()
        claim.wait_for_round(directory)
        return claim

    def wait_for_round(self, directory: Path) -> None:
        """Claim what `as_round_writer` claims; see there."""
        lock = DoubleLock(directory / LOCK_NAME, directory)
        held = HeldLock(lock)
        self._held.append(held)
        deadline = time.monotonic() + _ROUND_WAIT_SECONDS
        try:
            directory.mkdir(DIRECTORY_MODE, exist_ok=True)
            while True:
                try:
                    held.lock()
                except StorageLockedError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_ROUND_LOOK_SECONDS)
                else:
                    return
        except OSError as cause:
            raise StorageUnavailableError(lock.file, cause) from cause

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class GroupClaim(Claim):
    """Claim of one group on one log."""

    def __init__(self, path: Path, group: str, log: str) -> None:
        """Claim nothing yet; callers use `Claim.as_consumer`."""
        super().__init__()
        self._path = path
        self._group = group
        self._log = log
        self._file = HeldFile(path)
        self._is_held = False

    def renew(self) -> None:
        """Claim the log; claim it again if the lock file was deleted.

        Raises:
            GroupLockedError: A process, perhaps this one, consumes the log for that group.
            StorageUnavailableError: The lock file cannot be made or opened.
        """
        for look in itertools.count(1):
            try:
                for directory in (self._path.parent.parent, self._path.parent):
                    directory.mkdir(DIRECTORY_MODE, exist_ok=True)
                if self._is_held:
                    self._file.renew()
                else:
                    self._file.lock()
                    self._is_held = True
            except StorageLockedError as error:
                # A consumer writes its process id into the file; a process that only checks does
                # not.
                if error.pid is not None or look > _CLAIM_LOOKS:
                    raise GroupLockedError(self._group, self._log, error.pid) from None
            except FileNotFoundError as cause:
                # The last lock of the group was removed, and its directory too: try again.
                if look > _CLAIM_LOOKS:
                    raise StorageUnavailableError(self._path, cause) from cause
            except OSError as cause:
                raise StorageUnavailableError(self._path, cause) from cause
            else:
                return
            time.sleep(_ROUND_LOOK_SECONDS)

    def release(self) -> None:
        """Release the log; a second call does nothing, or completes an interrupted first one."""
        self._file.release()
        self._is_held = False

    def remove(self) -> None:
        """Release the log and remove the lock file.

        A file that cannot be removed stays; it blocks no consumer.
        """
        with suppress(OSError):
            self._file.remove()
            self._path.parent.rmdir()
        self._file.release()

    def touch(self) -> None:
        """Update the time of the lock file, which shows that its holder is active."""
        with suppress(OSError):
            self._file.touch()


class _Shared:
    """Shared lock."""

    def __init__(self, lock: DoubleLock) -> None:
        self._held = ExitStack()
        self._held.enter_context(lock.share())

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        self._held.close()


def consumer_lock_path(root: Path, group: str, incarnation: UUID) -> Path:
    """Return the lock file that a consumer of a group holds while it consumes a log."""
    return _locks(root, group) / str(incarnation)


def last_seen_ns(root: Path, group: str) -> int | None:
    """Return when a consumer of a group was last active; None if one is active now.

    Nanoseconds since 1970 UTC; 0 if the group has no lock files.
    """
    seen_ns = 0
    for path in _lock_files(_locks(root, group)):
        if is_locked(path):
            return None
        with suppress(FileNotFoundError):
            seen_ns = max(seen_ns, path.stat().st_mtime_ns)
    return seen_ns


def remove_group_locks(root: Path, group: str) -> None:
    """Remove the unheld lock files of a group: those of logs that are gone."""
    directory = _locks(root, group)
    for path in _lock_files(directory):
        _remove_lock(path)
    with suppress(OSError):
        directory.rmdir()


def remove_log_locks(root: Path, incarnation: UUID) -> None:
    """Remove the lock files of a log that is gone; a consumer removes the one that it holds."""
    for directory in _lock_files(root / "locks"):
        path = directory / str(incarnation)
        if path.exists():
            _remove_lock(path)
            with suppress(OSError):
                directory.rmdir()


def _locks(root: Path, group: str) -> Path:
    return root / "locks" / encode_name(group)


def _lock_files(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove_lock(path: Path) -> None:
    # A consumer holds it, or it cannot be removed: then it stays, and blocks no consumer.
    with suppress(StorageLockedError, OSError):
        hold_file(path).remove()


def _upgrade(root: Path) -> None:
    """Upgrade a data directory of an earlier version, or complete an interrupted upgrade.

    Raises:
        StorageLockedError: The directory is of an earlier version, and another process uses it.
        StorageFormatError: This program cannot read the version of the directory.
        StorageUnavailableError: There is no data directory, or it cannot be written.
        DocumentWriteError: The directory cannot be upgraded.
    """
    found = check_data_directory(root)
    if found is DataFormat.EARLIER:
        upgrade_directory(root)
    elif found is DataFormat.UPGRADING:
        # The directory can be used before the upgrade is finished.
        with suppress(StorageLockedError):
            upgrade_directory(root)


def _is_data_directory(root: Path) -> bool:
    try:
        check_data_directory(root)
    except StorageFormatError as error:
        if error.found is not None:
            raise
        return False
    return True
