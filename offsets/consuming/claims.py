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
    """What a claim holds."""

    def release(self) -> None:
        """Give it up; a second call does nothing, or what an exception has cut short."""


class Claim:
    """Something that is held until it is released."""

    def __init__(self) -> None:
        self._held: list[Releasable] = []

    def release(self) -> None:
        """Give it up; a second call does nothing, or what an exception has cut short."""
        for each in reversed(self._held):
            each.release()

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
        """Keep servers off a data directory while this process reads and commits there.

        Raises:
            StorageLockedError: A server runs on it, or it is of an earlier version and another
                process uses it: the upgrade needs it alone.
            StorageFormatError: It is of another format version.
            StorageUnavailableError: There is none (a writer makes it), or it cannot be written.
            DocumentWriteError: It is of an earlier version, and cannot be upgraded.
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
            GroupLockedError: Another process, or this one, consumes it for that group.
            StorageUnavailableError: The lock cannot be made or opened.
        """
        claim = GroupClaim(consumer_lock_path(root, group, incarnation), group, log)
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
        claim = cls()
        claim.wait_for_round(directory)
        return claim

    def wait_for_round(self, directory: Path) -> None:
        """Claim what `for_a_round` does; see there."""
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
    """One log, claimed for one group."""

    def __init__(self, path: Path, group: str, log: str) -> None:
        """Hold nothing yet; use `Claim.as_consumer`."""
        super().__init__()
        self._path = path
        self._group = group
        self._log = log
        self._file = HeldFile(path)
        self._is_held = False

    def renew(self) -> None:
        """Claim it, or claim it again where somebody has deleted the file.

        Raises:
            GroupLockedError: Another process, or this one, consumes it for that group.
            StorageUnavailableError: The lock cannot be made or opened.
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
                # A consumer writes its number into the file. What only looks at it does not.
                if error.pid is not None or look > _CLAIM_LOOKS:
                    raise GroupLockedError(self._group, self._log, error.pid) from None
            except FileNotFoundError as cause:
                # The last lock of the group was removed, and the directory with it.
                if look > _CLAIM_LOOKS:
                    raise StorageUnavailableError(self._path, cause) from cause
            except OSError as cause:
                raise StorageUnavailableError(self._path, cause) from cause
            else:
                return
            time.sleep(_ROUND_LOOK_SECONDS)

    def release(self) -> None:
        """Give it up; a second call does nothing, or what an exception has cut short."""
        self._file.release()
        self._is_held = False

    def remove(self) -> None:
        """Give it up for good: the lock file is removed.

        A file that cannot be removed stays; it holds nobody up.
        """
        with suppress(OSError):
            self._file.remove()
            self._path.parent.rmdir()
        self._file.release()

    def touch(self) -> None:
        """Say in the time of the lock file that its holder is there."""
        with suppress(OSError):
            self._file.touch()


class _Shared:
    """A lock that others share."""

    def __init__(self, lock: DoubleLock) -> None:
        self._held = ExitStack()
        self._held.enter_context(lock.share())

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        self._held.close()


def consumer_lock_path(root: Path, group: str, incarnation: UUID) -> Path:
    """Return the file that a consumer of a group holds as long as it has a log."""
    return _locks(root, group) / str(incarnation)


def last_seen_ns(root: Path, group: str) -> int | None:
    """Return when a consumer of a group last showed that it was there; None: one is there now.

    Nanoseconds since 1970 UTC; 0 if no lock of the group is left.
    """
    seen_ns = 0
    for path in _lock_files(_locks(root, group)):
        if is_locked(path):
            return None
        with suppress(FileNotFoundError):
            seen_ns = max(seen_ns, path.stat().st_mtime_ns)
    return seen_ns


def remove_group_locks(root: Path, group: str) -> None:
    """Remove the lock files of a group that nobody holds: those of logs that are gone."""
    directory = _locks(root, group)
    for path in _lock_files(directory):
        _remove_lock(path)
    with suppress(OSError):
        directory.rmdir()


def remove_log_locks(root: Path, incarnation: UUID) -> None:
    """Remove the lock files of a log that is gone; a consumer that holds one removes it itself."""
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
    # Held by a consumer; or it cannot be removed, and then it stays: it holds nobody up.
    with suppress(StorageLockedError, OSError):
        hold_file(path).remove()


def _upgrade(root: Path) -> None:
    """Upgrade a data directory of an earlier version, or go on with its upgrade.

    Raises:
        StorageLockedError: It is of an earlier version, and another process uses it.
        StorageFormatError: It is of a version that this program does not read.
        StorageUnavailableError: There is none, or it cannot be written.
        DocumentWriteError: It cannot be upgraded.
    """
    found = check_data_directory(root)
    if found is DataFormat.EARLIER:
        upgrade_directory(root)
    elif found is DataFormat.UPGRADING:
        # Whoever uses it can do so before it is finished.
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
