"""Identity of the log in a directory, for callers that know only the directory."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
)
from appendlog.segments.durable_end import read_durable_end
from appendlog.segments.segment import SegmentName


def read_segment_header(
    directory: Path, name: SegmentName, filesystem: FileSystem, descriptors: Descriptors
) -> SegmentHeader | None:
    """Return the header of a segment file, or None if it is not valid; opens the file for reading.

    Raises:
        UnsupportedFormatError: The header is whole, but of another format version.
        OSError: The file cannot be read.
    """
    path = directory / name.file_name
    try:
        with descriptors.borrow(filesystem, path, os.O_RDONLY) as descriptor:
            data = filesystem.read_all(descriptor, SEGMENT_HEADER_BYTES_MAX, 0)
    except IsADirectoryError:
        return None
    return decode_segment_header(data, path)


def log_owner(
    directory: Path,
    names: Sequence[SegmentName],
    filesystem: FileSystem,
    descriptors: Descriptors,
) -> LogIdentity | None:
    """Return the identity of the log in a directory; None if no segment has a readable header.

    The last segment decides if the `end` file or the name of the directory agrees with it.
    Otherwise a segment of another log may be there: then these two decide, or the majority of
    the segments.

    Args:
        directory: Directory of the log.
        names: Names of its segments, in order; at least one.
        filesystem: File operations.
        descriptors: Cache of files that are open for reading.

    Raises:
        UnsupportedFormatError: A segment is of another format version.
        OSError: A file cannot be read.
    """
    last = read_segment_header(directory, names[-1], filesystem, descriptors)
    if last is not None and _is_named(last.identity, directory, filesystem):
        return last.identity
    headers = [read_segment_header(directory, name, filesystem, descriptors) for name in names]
    counts = Counter(header.identity for header in headers if header is not None)
    for owner in counts:
        if _is_named(owner, directory, filesystem):
            return owner
    return counts.most_common(1)[0][0] if counts else None


def _is_named(owner: LogIdentity, directory: Path, filesystem: FileSystem) -> bool:
    """Return whether the name of a directory, or its `end` file, states an identity."""
    incarnation = owner.incarnation
    return (
        directory.name == str(incarnation)
        or read_durable_end(filesystem, directory, incarnation) is not None
    )


def is_as_named(
    directory: Path,
    name: SegmentName,
    identity: LogIdentity,
    filesystem: FileSystem,
    descriptors: Descriptors,
) -> bool:
    """Return whether the header of a file states the log and the segment of its file name.

    Raises:
        UnsupportedFormatError: The header is whole, but of another format version.
        OSError: The file cannot be read.
    """
    header = read_segment_header(directory, name, filesystem, descriptors)
    return (
        header is not None
        and header.identity == identity
        and (header.base_offset, header.generation) == name
    )
