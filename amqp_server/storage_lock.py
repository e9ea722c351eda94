"""Claiming the data directory, or saying in one line why it cannot be claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.errors import StartupError
from appendlog.files.durable_directories import DurableDirectories, existing_root
from metadata.directory_lock import DirectoryLock
from metadata.errors import MetadataError

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem


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
