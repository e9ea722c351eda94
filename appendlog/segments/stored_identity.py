"""Whose log a directory holds, as its segments say: for a log that no definition names."""

from pathlib import Path
from typing import Final

from appendlog.errors import UnsupportedFormatError
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.segment_header import SEGMENT_HEADER_BYTES_MAX, decode_segment_header
from appendlog.segments.segment import segment_names

_SEGMENTS_MAX: Final = 8
"""Headers that are looked at: each segment of a log says the same."""


def stored_identity(directory: Path, filesystem: FileSystem) -> LogIdentity | None:
    """Return the identity that the segments of a log give; None if none of them can be read.

    Args:
        directory: Directory of the log.
        filesystem: All file calls go through it.

    Raises:
        OSError: The directory cannot be read.
    """
    for name in segment_names(filesystem.listdir(directory))[:_SEGMENTS_MAX]:
        path = directory / name.file_name
        try:
            header = decode_segment_header(
                filesystem.read_file(path, SEGMENT_HEADER_BYTES_MAX), path
            )
        except (OSError, UnsupportedFormatError):
            continue
        if header is not None:
            return header.identity
    return None
