"""Selection of a log's segment files when some of them were being rewritten.

A crash during a compaction leaves two generations of a segment, both whole, or a file that never
got its name. The newest valid generation counts. A start removes the others; readers in other
processes only ignore them.

Source: docs/log-format.md, section 10.
"""

import logging
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.layout.segment_header import SEGMENT_HEADER_BYTES_MAX, decode_segment_header
from appendlog.segments.durable_end import END_FILE_NAME
from appendlog.segments.sealed import read_footer
from appendlog.segments.segment import COMPACTING_SUFFIX, SegmentName, segment_names

logger: Final = logging.getLogger("appendlog.recovery.generations")

_LEFTOVER: Final = re.compile(rf"\d{{20}}(-\d{{10}})?(\.index(\.new)?|{COMPACTING_SUFFIX})\Z")


def newest_generations(directory: Path, filesystem: FileSystem) -> list[SegmentName]:
    """Return a log's segments in order; of several generations, the newest valid one.

    A directory that does not exist has no segments.

    Raises:
        OSError: A file cannot be read.
        UnsupportedFormatError: A compacted segment is of another format version.
    """
    by_base: dict[int, list[SegmentName]] = {}
    if filesystem.exists(directory):
        for name in segment_names(filesystem.listdir(directory)):
            by_base.setdefault(name.base_offset, []).append(name)
    return [_newest_valid(directory, filesystem, by_base[base]) for base in sorted(by_base)]


def remove_leftovers(
    directory: Path,
    found: Sequence[str],
    names: Sequence[SegmentName],
    filesystem: FileSystem,
    foreign_files: Collection[SegmentName] = (),
) -> int:
    """Remove what crashes during compactions and removals left; return the number of files.

    Those are segments that are not in `names`, files that never got their names, and indexes of
    missing segments. One that cannot be removed costs space and nothing else: readers
    that list the files ignore it, as now, and the next opening tries again.

    Args:
        directory: Directory of the log; must exist.
        found: Names of all files in it.
        names: Result of `newest_generations`: the valid segments.
        filesystem: File operations of the log.
        foreign_files: Files that are not segments of this log; they and their indexes stay.

    Raises:
        OSError: The directory cannot be synced.
    """
    staying = (*names, *foreign_files)
    counting = {name.file_name for name in staying} | {name.index_name for name in staying}
    if counting.union((END_FILE_NAME,)).issuperset(found):
        return 0
    passed_over = {name.file_name for name in segment_names(found)} - counting
    rest = [name for name in found if _LEFTOVER.match(name) and name not in counting]
    if passed_over:
        # The name of the valid file may not be on the disk yet: the crash may precede its sync.
        filesystem.sync_directory(directory)
    removed = 0
    for name in sorted([*passed_over, *rest]):
        path = directory / name
        try:
            filesystem.unlink(path)
        except OSError as error:
            logger.warning("leftover not removed path=%s error=%s", path, error)
        else:
            removed += 1
    return removed


def _newest_valid(
    directory: Path, filesystem: FileSystem, names: Sequence[SegmentName]
) -> SegmentName:
    for name in reversed(names[1:]):
        if _is_whole(directory, filesystem, name):
            return name
    return names[0]


def _is_whole(directory: Path, filesystem: FileSystem, name: SegmentName) -> bool:
    """Return whether a rewritten segment has its header and its footer.

    `own_segments` checks which log it belongs to; readers notice another log by its wrong salt.
    """
    path = directory / name.file_name
    descriptor = filesystem.open(path, os.O_RDONLY)
    try:
        data = filesystem.read_all(descriptor, SEGMENT_HEADER_BYTES_MAX, 0)
        header = decode_segment_header(data, path)
        if header is None or (header.base_offset, header.generation) != name:
            return False
        salt = header.identity.salt
        return read_footer(filesystem, descriptor, salt, name.base_offset) is not None
    finally:
        filesystem.close(descriptor)
