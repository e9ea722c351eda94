"""Claims the data directory, or says in one line why it cannot be claimed."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import DirectoryInUseError, StartupError
from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.mounts import file_system_type
from metadata.directory_lock import DirectoryLock
from metadata.errors import MetadataError, StorageLockedError, StorageUnavailableError
from offsets.errors import CheckpointFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem

logger = logging.getLogger("amqp_server.storage_lock")

_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs"),
        *("afs", "moosefs", "weka", "davfs"),
        *("fuse.glusterfs", "fuse.ceph-fuse", "fuse.sshfs", "fuse.juicefs", "fuse.mfs"),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.mount-s3", "fuse.goofys", "fuse.rclone"),
    }
)
"""Types, as the kernel names them, of file systems that many machines can write at once."""


def lock_storage(storage_path: Path, filesystem: FileSystem) -> DirectoryLock:
    """Create the data directory durably if it is missing, and claim it.

    Raises:
        DirectoryInUseError: Another process has claimed the directory.
        StartupError: The directory cannot be used.
    """
    try:
        directories = DurableDirectories(existing_root(filesystem, storage_path))
        directories.make(filesystem, storage_path)
        directories.sync(filesystem, storage_path)
        lock = DirectoryLock.acquire(storage_path, filesystem)
    except StorageLockedError as error:
        raise DirectoryInUseError(str(error)) from error
    except MetadataError as error:
        raise StartupError(str(error)) from error
    except OSError as error:
        raise StartupError(
            f"cannot use the data directory {storage_path}: {error.strerror or error}"
        ) from error
    _warn_of_network(storage_path)
    return lock


def _warn_of_network(storage_path: Path) -> None:
    """Say that a directory has no fence: a machine that is given up for dead may still write."""
    try:
        kind = file_system_type(storage_path)
    except OSError:
        return
    if kind in _NETWORK_FILE_SYSTEMS:
        logger.warning(
            "data directory on a network file system path=%s type=%s note=nothing keeps another "
            "machine from writing there, and its server decides what a sync is; use a block volume",
            storage_path,
            kind,
        )


def keep_lock(lock: DirectoryLock) -> None:
    """Create the file LOCK again if it was deleted; called before each round of checkpoints.

    The lock on the directory itself keeps other servers out during that time. Another server can be
    in only if it is of an earlier version, or if the file system has no such locks. Two servers
    would then write the same files, so this one writes no checkpoint and removes nothing.

    Raises:
        CheckpointFailedError: Another server has claimed the directory, or LOCK cannot be created.
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
