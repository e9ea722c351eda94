"""Bytes of segments for reading: mapped if the segment is sealed, otherwise copied."""

from typing import NamedTuple

from appendlog.files.filesystem import FileSystem
from appendlog.files.mappings import Mappings
from appendlog.layout.records import ReadableBuffer
from appendlog.segments.segment import Segment


class ReadWindow(NamedTuple):
    """Piece of a segment.

    Attributes:
        buffer: Buffer that holds its bytes, and possibly others.
        start: Position in the buffer where they begin.
        end: Position in the buffer where they end.
        is_new_mapping: Whether the buffer was mapped for this window.
    """

    buffer: ReadableBuffer
    start: int
    end: int
    is_new_mapping: bool = False


def read_window(
    filesystem: FileSystem,
    mappings: Mappings | None,
    segment: Segment,
    descriptor: int,
    position: int,
    size: int,
) -> ReadWindow:
    """Return the bytes `[position, position + size)` of a segment; fewer only at its end.

    A view of the file if the segment is sealed (invariant I6) and a mapping is available; a copy
    if the segment still grows.

    Raises:
        OSError: The file cannot be read.
    """
    if mappings is not None and segment.is_sealed:
        mapped = mappings.window(
            filesystem, segment.path, descriptor, position, size, segment.data_bytes
        )
        if mapped is not None:
            return ReadWindow(mapped.buffer, mapped.start, mapped.start + size, mapped.is_new)
    data = filesystem.read_all(descriptor, size, position)
    if position + size < segment.data_bytes:
        ahead = min(size, segment.data_bytes - position - size)
        filesystem.will_need(descriptor, position + size, ahead)
    return ReadWindow(data, 0, len(data))
