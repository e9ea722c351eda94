"""Removing the files of segments that nobody needs."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.deleted_mark import DELETED_MARK_NAME
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.segments.segment import Segment


def remove_segments(
    directory: Path, segments: Sequence[Segment], filesystem: FileSystem, descriptors: Descriptors
) -> None:
    """Remove the files of segments that are no more in the log's list.

    The names are put on the disk together: after a power cut any of them may be back. That
    does not matter, because all are settled on the disk already: recovery, which knows the
    floor, takes a hole among them for what it is, and the next retention removes the rest.

    Args:
        directory: Of the log.
        segments: Oldest first; none changes nothing.
        filesystem: All file calls go through it.
        descriptors: Open files.

    Raises:
        OSError: A file cannot be removed; it and what comes after it are still there.
    """
    for segment in segments:
        filesystem.unlink(segment.path)
        # Not sooner: a read that still knows the segment would open it again, and an open
        # file keeps its space. After the unlink it cannot be opened any more.
        descriptors.forget(filesystem, segment.path)
        if filesystem.exists(segment.index_path):
            filesystem.unlink(segment.index_path)
    if segments:
        filesystem.sync_directory(directory)


def remove_directory(directory: Path, filesystem: FileSystem) -> None:
    """Remove a log's directory with all that is in it; one that is not there is fine.

    The mark that says that it is deleted goes last, when nothing else can come back: without it,
    what a power cut leaves would be a log whose definition was lost.

    Raises:
        OSError: Something cannot be removed; a symbolic link in the directory's place never is.
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
    filesystem.sync_directory(directory.parent)
