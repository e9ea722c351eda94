"""Who may do what with a data directory that several processes share.

    LOCK                     shared by all that embed its logs: no server starts meanwhile
    WRITER                   the one process that appends and removes
    locks/<group>/<log>      the one process that consumes that log for that group
    offsets/LOCK             held for the time of one round of checkpoints

All are locks of the kernel (flock), gone with the process however it ends.
"""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.filesystem import FileSystem
from metadata.data_format import DataFormat
from metadata.directory_lock import LOCK_NAME, WRITER_NAME, DirectoryLock
from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError
from metadata.lock_file import FileLock, is_locked
from metadata.names import encode_name
from metadata.reading_lock import check_data_directory
from metadata.upgrade import upgrade_directory
from offsets.errors import GroupLockedError

_ROUND_WAIT_SECONDS: Final = 30.0
_ROUND_LOOK_SECONDS: Final = 0.002
_CLAIM_LOOKS: Final = 50


class Claim:
    """Something that is held until it is released."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._held: list[FileLock] = []

    def release(self) -> None:
        """Give it up; a second call does nothing, or what an exception has cut short."""
        for lock in reversed(self._held):
            lock.release()

    def remove(self) -> None:
        """Give it up for good: its lock files are removed. For what a consumer has claimed.

        A file that cannot be removed stays; it holds nobody up.
        """
        for lock in reversed(self._held):
            with suppress(OSError):
                lock.remove()
                lock.path.parent.rmdir()
        self.release()

    def touch(self) -> None:
        """Say in the times of the lock files that their holder is there."""
        for lock in self._held:
            with suppress(OSError):
                lock.touch()

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
            claim._lock(root / WRITER_NAME)
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
        path = root / LOCK_NAME
        try:
            claim._add(FileLock(path, is_shared=True))
        except OSError as cause:
            raise StorageUnavailableError(path, cause) from cause
        return claim

    @classmethod
    def as_consumer(cls, root: Path, group: str, log: str, incarnation: UUID) -> Self:
        """Claim one log for one group.

        Raises:
            GroupLockedError: Another process, or this one, consumes it for that group.
            StorageUnavailableError: The lock cannot be made or opened.
        """
        path = consumer_lock_path(root, group, incarnation)
        claim = cls()
        for look in itertools.count(1):
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                claim._add(FileLock(path))
            except StorageLockedError as error:
                # A consumer writes its number into the file. What only looks at it does not.
                if error.pid is not None or look > _CLAIM_LOOKS:
                    raise GroupLockedError(group, log, error.pid) from None
            except FileNotFoundError as cause:
                # The last lock of the group was removed, and the directory with it.
                if look > _CLAIM_LOOKS:
                    raise StorageUnavailableError(path, cause) from cause
            except OSError as cause:
                raise StorageUnavailableError(path, cause) from cause
            else:
                break
            time.sleep(_ROUND_LOOK_SECONDS)
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
        path = directory / LOCK_NAME
        deadline = time.monotonic() + _ROUND_WAIT_SECONDS
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            while True:
                try:
                    self._lock(path)
                except StorageLockedError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_ROUND_LOOK_SECONDS)
                else:
                    return
        except OSError as cause:
            raise StorageUnavailableError(path, cause) from cause

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _lock(self, path: Path) -> None:
        try:
            self._add(FileLock(path))
        except OSError as cause:
            raise StorageUnavailableError(path, cause) from cause

    def _add(self, lock: FileLock) -> None:
        """Lock a file; this has the lock before it is held, and can release it in any case."""
        self._held.append(lock)
        try:
            lock.acquire()
        except (StorageLockedError, OSError):
            self._held.remove(lock)
            raise


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
        FileLock(path).acquire().remove()


def _is_data_directory(root: Path) -> bool:
    try:
        check_data_directory(root)
    except StorageFormatError as error:
        if error.found is not None:
            raise
        return False
    return True
