"""The file that says that a log is deleted: from its sync on, whoever finds the log removes it.

A deletion sets the mark before it removes the definition of the queue. So a start can tell what a
crash left of a deletion from a log whose definition was lost: it removes the one, never the other.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem

DELETED_MARK_NAME: Final = "deleted"
"""Name of the file in the log's directory; it is empty, and its name is all that counts."""


def has_deleted_mark(filesystem: FileSystem, directory: Path) -> bool:
    """Return whether the log in a directory is marked as deleted."""
    return filesystem.exists(directory / DELETED_MARK_NAME)


def set_deleted_mark(filesystem: FileSystem, directory: Path) -> None:
    """Mark the log in a directory as deleted; the mark is on the disk when this returns.

    Args:
        filesystem: File operations of the log.
        directory: Directory of the log; must exist. A second mark changes nothing.

    Raises:
        OSError: The disk refused; the mark may be there or not.
    """
    # Without content: a disk that has no free block may still have room for a name.
    descriptor = filesystem.open(directory / DELETED_MARK_NAME, os.O_WRONLY | os.O_CREAT)
    try:
        filesystem.fsync(descriptor)
    finally:
        filesystem.close(descriptor)
    filesystem.sync_directory(directory)


def remove_deleted_mark(filesystem: FileSystem, directory: Path) -> None:
    """Take the mark back, durably; a log without one stays as it is.

    Raises:
        OSError: The disk refused; the mark may be there or not.
    """
    with suppress(FileNotFoundError):
        filesystem.unlink(directory / DELETED_MARK_NAME)
        filesystem.sync_directory(directory)
