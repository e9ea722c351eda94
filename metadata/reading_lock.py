"""Reads a data directory without changing it, and keeps servers from starting on it.

`DirectoryLock` writes: it creates the directory, LOCK and FORMAT. This module takes a shared lock
with a read-only descriptor, so several readers may run at once and no file is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from metadata.data_format import FORMAT_NAME, FORMAT_VERSION, DataFormat, read_format
from metadata.double_lock import DoubleLock
from metadata.errors import StorageFormatError, StorageUnavailableError


def check_data_directory(storage_path: Path) -> DataFormat:
    """Check that the path is a data directory whose version this program reads.

    Returns:
        Its version. An earlier one can be read; the next program that writes to it upgrades it.

    Raises:
        StorageUnavailableError: The directory does not exist or cannot be read.
        StorageFormatError: It has another version, or is no data directory.
    """
    try:
        os.listdir(storage_path)  # noqa: PTH208 - only to see that it can be listed
        return read_format(storage_path)
    except FileNotFoundError as cause:
        if storage_path.is_dir():
            path = storage_path / FORMAT_NAME
            raise StorageFormatError(path, None, FORMAT_VERSION) from None
        raise StorageUnavailableError(storage_path, cause) from cause
    except OSError as cause:
        raise StorageUnavailableError(storage_path, cause) from cause


@contextmanager
def reading_lock(storage_path: Path) -> Iterator[None]:
    """Keep servers and embedding programs from writing; changes nothing in the directory.

    Raises:
        StorageLockedError: A server runs on it, or a program writes to it.
        StorageUnavailableError: A lock cannot be opened.
    """
    with ExitStack() as held:
        for lock in (DoubleLock.of_server(storage_path), DoubleLock.of_writer(storage_path)):
            try:
                held.enter_context(lock.share())
            except OSError as cause:
                raise StorageUnavailableError(lock.file, cause) from cause
        yield


def is_served(storage_path: Path) -> bool:
    """Return whether a server runs on a data directory."""
    return DoubleLock.of_server(storage_path).is_held()


def is_live(storage_path: Path) -> bool:
    """Return whether a server or an embedding program writes to a data directory."""
    return is_served(storage_path) or DoubleLock.of_writer(storage_path).is_held()
