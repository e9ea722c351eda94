"""Look at a data directory without changing it, and keep servers from starting meanwhile.

`DirectoryLock` writes: it makes the directory, LOCK and FORMAT. This takes a shared lock through a
descriptor that can only read, so several may look at once and no file is touched.
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
    """Check that there is a data directory of a version that this program reads.

    Returns:
        Its version: an earlier one is read as it is, and upgraded by whoever writes to it.

    Raises:
        StorageUnavailableError: There is none, or it cannot be read.
        StorageFormatError: It is of another version, or is no data directory.
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
    """Keep servers and embedding programs from writing; nothing in the directory is changed.

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
    """Tell whether a server runs on a data directory."""
    return DoubleLock.of_server(storage_path).is_held()


def is_live(storage_path: Path) -> bool:
    """Tell whether a server, or a program that embeds its logs, writes to a data directory."""
    return is_served(storage_path) or DoubleLock.of_writer(storage_path).is_held()
