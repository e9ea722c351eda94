"""Look at a data directory without changing it, and keep servers from starting meanwhile.

`DirectoryLock` writes: it makes the directory, LOCK and FORMAT. This takes a shared lock through a
descriptor that can only read, so several may look at once and no file is touched.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from metadata.directory_lock import FORMAT_VERSION, FORMAT_VERSIONS_TAKEN_OVER
from metadata.errors import StorageFormatError, StorageLockedError, StorageUnavailableError

_LOCK_NAME: Final = "LOCK"
_FORMAT_NAME: Final = "FORMAT"
_FIRST_BYTES: Final = 64


def check_data_directory(storage_path: Path) -> None:
    """Check that there is a data directory of a version that this program reads.

    Raises:
        StorageUnavailableError: There is none, or it cannot be read.
        StorageFormatError: It is of another version, or is no data directory.
    """
    path = storage_path / _FORMAT_NAME
    try:
        os.listdir(storage_path)  # noqa: PTH208 - only to see that it can be listed
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            content = file.read(_FIRST_BYTES)
    except FileNotFoundError as cause:
        if storage_path.is_dir():
            raise StorageFormatError(path, None, FORMAT_VERSION) from None
        raise StorageUnavailableError(storage_path, cause) from cause
    except OSError as cause:
        raise StorageUnavailableError(storage_path, cause) from cause
    found = content.decode("ascii", "backslashreplace").strip()
    if found not in (FORMAT_VERSION, *FORMAT_VERSIONS_TAKEN_OVER):
        raise StorageFormatError(path, found, FORMAT_VERSION)


@contextmanager
def reading_lock(storage_path: Path) -> Iterator[None]:
    """Keep servers from starting on a data directory; nothing in it is changed.

    Raises:
        StorageLockedError: A server runs on it.
        StorageUnavailableError: LOCK cannot be opened.
    """
    path = storage_path / _LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        # No server has ever been here, or somebody has copied the directory without it.
        yield
        return
    except OSError as cause:
        raise StorageUnavailableError(path, cause) from cause
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, _FIRST_BYTES, 0).strip()
            raise StorageLockedError(path, int(text) if text.isdigit() else None) from None
        except OSError as cause:
            raise StorageUnavailableError(path, cause) from cause
        yield
    finally:
        os.close(descriptor)
