"""The bytes of segments for reading: mapped where nothing changes any more, else copied."""

from typing import NamedTuple

from appendlog.files.filesystem import FileSystem
from appendlog.files.mappings import Mappings
from appendlog.layout.records import ReadableBuffer
from appendlog.segments.segment import Segment


class ReadWindow(NamedTuple):
    """A piece of a segment.

    Attributes:
        buffer: Where its bytes are, among others perhaps.
        start: Where they begin in the buffer.
        end: Where they end.
        is_mapped_anew: Whether the buffer was mapped for them.
    """

    buffer: ReadableBuffer
    start: int
    end: int
    is_mapped_anew: bool = False


def read_window(
    filesystem: FileSystem,
    mappings: Mappings | None,
    segment: Segment,
    descriptor: int,
    position: int,
    size: int,
) -> ReadWindow:
    """Return the bytes `[position, position + size)` of a segment, fewer only if it ends there.

    Of a sealed segment they are a view of the file (invariant I6), if there is a mapping to be
    had; of one that grows, a copy.

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
