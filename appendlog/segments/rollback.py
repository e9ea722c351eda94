"""Undoing a failed append: no caller got a confirmation for what it left in the files.

This changes nothing that was ever durable: it removes only bytes after the end of the log, as a
start does with a torn tail.
"""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.segments.segment import Segment, SegmentName, segment_names


def roll_back(
    filesystem: FileSystem,
    descriptors: Descriptors,
    directory: Path,
    known: Sequence[Segment],
    end_offset: int,
    active: tuple[Segment, int] | None,
    foreign_files: Collection[SegmentName] = (),
) -> None:
    """Remove segments that a failed append began, and what it wrote after the last one.

    Args:
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        directory: Directory of the log.
        known: Segments of the log; files of other segments at or after `end_offset` are removed.
        end_offset: Log end offset before the append.
        active: Segment that was appended to, and its size before, if there was one. If it was
            sealed since, all of it is on the disk, and it stays.
        foreign_files: Files that are not segments of the log; they stay.

    Raises:
        OSError: Something cannot be removed; the caller has to try again.
    """
    if not filesystem.exists(directory):
        return
    names = {segment.path.name for segment in known}
    begun = [
        name
        for name in segment_names(filesystem.listdir(directory))
        if name.base_offset >= end_offset
        and name.file_name not in names
        and name not in foreign_files
    ]
    for name in reversed(begun):
        _remove(filesystem, descriptors, directory / name.file_name)
        index_path = directory / name.index_name
        if filesystem.exists(index_path):
            filesystem.unlink(index_path)
    if begun:
        filesystem.sync_directory(directory)
    if active is not None and not active[0].is_sealed:
        segment, size_bytes = active
        descriptor = filesystem.open(segment.path, os.O_RDWR)
        try:
            if filesystem.size(descriptor) > size_bytes:
                filesystem.truncate(descriptor, size_bytes)
                filesystem.fsync(descriptor)
        finally:
            filesystem.close(descriptor)


def _remove(filesystem: FileSystem, descriptors: Descriptors, path: Path) -> None:
    filesystem.unlink(path)
    # The next segment may have the same name, and must not be written to the old file.
    descriptors.evict(filesystem, path)
