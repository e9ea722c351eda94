"""The mark of a deleted log: a file whose presence makes every later start remove the log.

A deletion sets the mark before it removes the definition of the queue. So a start can distinguish
the remains of a deletion from a log whose definition was lost: it removes only the former.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem

DELETED_MARK_NAME: Final = "deleted"
"""Name of the file in the log's directory; the file is empty, only its presence counts."""


def has_deleted_mark(filesystem: FileSystem, directory: Path) -> bool:
    """Return whether the log in a directory is marked as deleted."""
    return filesystem.exists(directory / DELETED_MARK_NAME)


def set_deleted_mark(filesystem: FileSystem, directory: Path) -> None:
    """Mark the log in a directory as deleted; the mark is on the disk when this returns.

    Args:
        filesystem: File operations of the log.
        directory: Directory of the log; must exist. A second mark changes nothing.

    Raises:
        OSError: The operation failed; the mark may exist or not.
    """
    # Without content: a disk without a free block may still have space for a name.
    descriptor = filesystem.open(directory / DELETED_MARK_NAME, os.O_WRONLY | os.O_CREAT)
    try:
        filesystem.fsync(descriptor)
    finally:
        filesystem.close(descriptor)
    filesystem.sync_directory(directory)


def remove_deleted_mark(filesystem: FileSystem, directory: Path) -> None:
    """Remove the mark, durably; a log without one is unchanged.

    Raises:
        OSError: The operation failed; the mark may exist or not.
    """
    with suppress(FileNotFoundError):
        filesystem.unlink(directory / DELETED_MARK_NAME)
        filesystem.sync_directory(directory)
