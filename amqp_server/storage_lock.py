"""Claiming the data directory, or saying in one line why it cannot be claimed."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

from amqp_server.errors import StartupError
from appendlog.files.durable_directories import DurableDirectories, existing_root
from metadata.directory_lock import DirectoryLock
from metadata.errors import MetadataError, StorageLockedError, StorageUnavailableError
from offsets.errors import CheckpointFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem

logger = logging.getLogger(__name__)


def lock_storage(storage_path: Path, filesystem: FileSystem) -> DirectoryLock:
    """Make the data directory where it is missing, safe from a power cut, and claim it.

    Raises:
        StartupError: It cannot be used, or another process has it.
    """
    try:
        directories = DurableDirectories(existing_root(filesystem, storage_path))
        directories.make(filesystem, storage_path)
        directories.sync(filesystem, storage_path)
        return DirectoryLock.acquire(storage_path, filesystem)
    except MetadataError as error:
        raise StartupError(str(error)) from error
    except OSError as error:
        raise StartupError(
            f"cannot use the data directory {storage_path}: {error.strerror or error}"
        ) from error


def keep_lock(lock: DirectoryLock) -> None:
    """Make LOCK again where somebody has deleted it; called before each round of checkpoints.

    The lock on the directory keeps other servers out meanwhile. Where one is in all the same, which
    can only be of an earlier version or on a file system without such locks, two servers write the
    same files: no checkpoint is written then, and nothing is removed.

    Raises:
        CheckpointFailedError: The directory is no longer ours, or LOCK cannot be made.
    """
    path = lock.storage_path
    try:
        is_made_again = lock.renew()
    except StorageLockedError as error:
        reason = f"{error}: LOCK was deleted under this server, stop one of the two"
        raise CheckpointFailedError(path, OSError(errno.EBUSY, reason)) from error
    except StorageUnavailableError as error:
        raise CheckpointFailedError(path, error.cause) from error
    if is_made_again:
        logger.error("LOCK was deleted or replaced, made again path=%s: leave it alone", path)
