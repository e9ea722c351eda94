"""Which files of a directory are the segments of its log, when some were being rewritten.

A crash during a compaction leaves two generations of a segment, each whole, or a file that
never got its name. The newest valid generation counts. A start removes the others; readers in
other processes only pass them over.

Source: docs/log-format.md, section 10.
"""

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.layout.segment_header import SEGMENT_HEADER_BYTES_MAX, decode_segment_header
from appendlog.segments.sealed import read_footer
from appendlog.segments.segment import COMPACTING_SUFFIX, SegmentName, segment_names

_LEFTOVER: Final = re.compile(rf"\d{{20}}(-\d{{10}})?(\.index(\.new)?|{COMPACTING_SUFFIX})\Z")


def newest_generations(directory: Path, filesystem: FileSystem) -> list[SegmentName]:
    """Return a log's segments in order: of several generations the newest valid one.

    A directory that does not exist holds none.

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
    names: Sequence[SegmentName],
    filesystem: FileSystem,
    strangers: Collection[SegmentName] = (),
) -> int:
    """Remove what crashes during compactions and removals left; return how many files.

    Segments that are not among `names`, files that never got their names, and indexes of
    segments that are gone.

    Args:
        directory: Of the log; must exist.
        names: Of `newest_generations`: what counts.
        filesystem: All file calls go through it.
        strangers: Files that are no segments of this log; they and their indexes stay.

    Raises:
        OSError: A file operation failed.
    """
    found = filesystem.listdir(directory)
    staying = (*names, *strangers)
    counting = {name.file_name for name in staying} | {name.index_name for name in staying}
    passed_over = {name.file_name for name in segment_names(found)} - counting
    rest = [name for name in found if _LEFTOVER.match(name) and name not in counting]
    if passed_over:
        # The name that counts may not be on the disk yet: a crash came before its sync.
        filesystem.sync_directory(directory)
    for name in sorted([*passed_over, *rest]):
        filesystem.unlink(directory / name)
    return len(passed_over) + len(rest)


def _newest_valid(
    directory: Path, filesystem: FileSystem, names: Sequence[SegmentName]
) -> SegmentName:
    for name in reversed(names[1:]):
        if _is_whole(directory, filesystem, name):
            return name
    return names[0]


def _is_whole(directory: Path, filesystem: FileSystem, name: SegmentName) -> bool:
    """Tell whether a rewritten segment has its header and its footer.

    Whose it is, `own_segments` knows; who only reads finds that out when it does not fit.
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
