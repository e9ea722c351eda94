"""The file FORMAT: the version of a data directory, and the steps of an upgrade.

An upgrade takes three steps, each durable before the next. FORMAT gets the value `UPGRADING`, so
that earlier programs refuse the directory. Every document of an earlier schema is written again.
FORMAT gets the value `FORMAT_VERSION`. A crash between the steps is harmless: the next start
resumes the upgrade, and until it is complete documents without a checksum are accepted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from metadata.errors import StorageFormatError

FORMAT_NAME: Final = "FORMAT"
FORMAT_VERSION: Final = "2"
"""Content of the file when every document has a checksum; later versions will read it too."""
UPGRADING: Final = "2-upgrading"
"""Content of the file while documents of earlier schemas are written again."""
EARLIER_VERSIONS: Final = ("1", "0-unstable")
"""Versions that a start upgrades."""

_FORMAT_BYTES_MAX: Final = 64
# FORMAT is written before any of these is created. If one exists without FORMAT, the directory is
# damaged or belongs to another program.
_DATA_NAMES: Final = ("metadata", "logs", "offsets", "transactions")


class DataFormat(Enum):
    """State of a data directory relative to this program's version."""

    EARLIER = "earlier"
    UPGRADING = "upgrading"
    CURRENT = "current"

    @property
    def has_unsigned_documents(self) -> bool:
        """Whether a document without a checksum is valid here; otherwise it is damage."""
        return self is not DataFormat.CURRENT


def read_format(storage_path: Path) -> DataFormat:
    """Return the version of a data directory.

    Raises:
        FileNotFoundError: There is no FORMAT file.
        OSError: The file cannot be read.
        StorageFormatError: The directory has a version that this program does not read.
    """
    path = storage_path / FORMAT_NAME
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        content = file.read(_FORMAT_BYTES_MAX)
    found = content.decode("ascii", "backslashreplace").strip()
    if found == FORMAT_VERSION:
        return DataFormat.CURRENT
    if found == UPGRADING:
        return DataFormat.UPGRADING
    if found in EARLIER_VERSIONS:
        return DataFormat.EARLIER
    raise StorageFormatError(path, found, FORMAT_VERSION)


def begin_format(storage_path: Path, filesystem: FileSystem) -> DataFormat:
    """Ensure that from now on only programs of this version write to a data directory.

    Writes FORMAT in a directory that has no data yet, and begins the upgrade of an earlier version.

    Returns:
        `CURRENT`, or `UPGRADING` if documents of earlier schemas may exist.

    Raises:
        OSError: FORMAT cannot be read or written.
        StorageFormatError: The data has another version, or FORMAT is missing.
    """
    try:
        found = read_format(storage_path)
    except FileNotFoundError:
        if any((storage_path / name).exists() for name in _DATA_NAMES):
            path = storage_path / FORMAT_NAME
            raise StorageFormatError(path, None, FORMAT_VERSION) from None
        write_format(storage_path, FORMAT_VERSION, filesystem)
        return DataFormat.CURRENT
    if found is DataFormat.EARLIER:
        write_format(storage_path, UPGRADING, filesystem)
        return DataFormat.UPGRADING
    return found


def write_format(storage_path: Path, version: str, filesystem: FileSystem) -> None:
    """Replace FORMAT atomically; it is on the disk when this returns.

    Raises:
        OSError: The disk refused; the file has the old or the new version.
    """
    path = storage_path / FORMAT_NAME
    temporary = storage_path / f"{FORMAT_NAME}.tmp"
    try:
        filesystem.write_file(temporary, f"{version}\n".encode("ascii"))
        filesystem.rename(temporary, path)
        filesystem.sync_directory(storage_path)
    except OSError:
        with suppress(OSError):
            filesystem.unlink(temporary)
        raise
