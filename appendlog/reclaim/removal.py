"""Removal of the files of segments that are no longer needed."""

import errno
import logging
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from appendlog.files.deleted_mark import DELETED_MARK_NAME
from appendlog.files.descriptors import Descriptors
from appendlog.files.durable_directories import existing_root
from appendlog.files.filesystem import FileSystem
from appendlog.segments.segment import Segment

logger = logging.getLogger("appendlog.reclaim.removal")


def remove_segments(
    directory: Path,
    segments: Sequence[Segment],
    filesystem: FileSystem,
    descriptors: Descriptors,
    known: Collection[Segment] = (),
) -> list[Segment]:
    """Remove the files of segments that are no longer in the log's list; return those that stay.

    A file that cannot be removed costs space and nothing else: the caller tries again later. One
    sync covers all names: after a power cut any of them may be back. That does no harm, because
    their records are settled on the disk already. Recovery, which knows the floor, does not take a
    hole among them for a loss, and the next retention removes the rest.

    Args:
        directory: Directory of the log.
        segments: Segments to remove, oldest first; may be empty.
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        known: Those of them that an earlier call could not remove. They were reported then; a line
            for each attempt would fill the server's log.

    Raises:
        OSError: The directory cannot be synced.
    """
    left: list[Segment] = []
    for segment in segments:
        try:
            _remove_files(segment, filesystem, descriptors)
        except OSError as error:
            left.append(segment)
            if segment not in known:
                logger.warning(
                    "segment not removed, tried again later path=%s error=%s", segment.path, error
                )
        else:
            if segment in known:
                logger.info("segment removed at last path=%s", segment.path)
    if len(left) < len(segments):
        filesystem.sync_directory(directory)
    return left


def _remove_files(segment: Segment, filesystem: FileSystem, descriptors: Descriptors) -> None:
    """Remove what is left of a segment's files."""
    with suppress(FileNotFoundError):
        filesystem.unlink(segment.path)
    # Not before the unlink: a read that still knows the segment would open it again, and an open
    # file keeps its disk space.
    descriptors.evict(filesystem, segment.path)
    if filesystem.exists(segment.index_path):
        filesystem.unlink(segment.index_path)


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
