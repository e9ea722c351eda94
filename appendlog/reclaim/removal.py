"""Removal of the files of segments that are no longer needed."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.deleted_mark import DELETED_MARK_NAME
from appendlog.files.descriptors import Descriptors
from appendlog.files.durable_directories import existing_root
from appendlog.files.filesystem import FileSystem
from appendlog.segments.segment import Segment


def remove_segments(
    directory: Path, segments: Sequence[Segment], filesystem: FileSystem, descriptors: Descriptors
) -> None:
    """Remove the files of segments that are no longer in the log's list.

    One sync covers all names: after a power cut any of them may be back. That does no harm, because
    their records are settled on the disk already. Recovery, which knows the floor, does not take a
    hole among them for a loss, and the next retention removes the rest.

    Args:
        directory: Directory of the log.
        segments: Segments to remove, oldest first; may be empty.
        filesystem: File operations of the log.
        descriptors: Cache of open files.

    Raises:
        OSError: A file cannot be removed; it and the later ones still exist.
    """
    for segment in segments:
        filesystem.unlink(segment.path)
        # Not before the unlink: a read that still knows the segment would open it again, and an
        # open file keeps its disk space.
        descriptors.evict(filesystem, segment.path)
        if filesystem.exists(segment.index_path):
            filesystem.unlink(segment.index_path)
    if segments:
        filesystem.sync_directory(directory)


def remove_directory(directory: Path, filesystem: FileSystem) -> None:
    """Remove a log's directory with all its files; a missing directory is no error.

    The deleted mark is removed last, when nothing else can come back. Without the mark, what a
    power cut leaves would look like a log whose definition was lost.

    Raises:
        OSError: Something cannot be removed; a symbolic link in place of the directory never is.
    """
    if not filesystem.exists(directory):
        return
    if not filesystem.is_directory(directory):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    names = sorted(filesystem.listdir(directory))
    others = [name for name in names if name != DELETED_MARK_NAME]
    for name in others:
        filesystem.unlink(directory / name)
    if len(others) < len(names):
        if others:
            filesystem.sync_directory(directory)
        filesystem.unlink(directory / DELETED_MARK_NAME)
    filesystem.rmdir(directory)
    try:
        filesystem.sync_directory(directory.parent)
    except FileNotFoundError:
        # Another log of the same name was the last to go, and took the empty parent with it.
        filesystem.sync_directory(existing_root(filesystem, directory.parent))
