"""Walk over all bytes of a segment after its header: chunks, and faults between them."""

from collections.abc import Iterator
from dataclasses import dataclass

from appendlog.layout.chunk import ChunkHeader
from appendlog.segments.scan import SegmentScan


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """Whole valid chunk.

    Attributes:
        position: Position where it starts.
        header: Header of the chunk.
        data: All bytes of the chunk.
    """

    position: int
    header: ChunkHeader
    data: bytes


@dataclass(frozen=True, slots=True)
class FoundFault:
    """Bytes that hold no valid chunk of this log.

    Attributes:
        position: Position where they start.
        end: Position of the next valid chunk, or the end of the walk.
        is_tail: Whether no valid chunk follows.
    """

    position: int
    end: int
    is_tail: bool


def walk_segment(
    scan: SegmentScan, position: int, size: int, minimum_offset: int
) -> Iterator[FoundChunk | FoundFault]:
    """Yield the contents of `[position, size)`, in order; checks every CRC.

    Args:
        scan: Scan of the segment, of the same size.
        position: Position where the first chunk should be.
        size: Number of bytes to walk.
        minimum_offset: Lowest base offset of a valid chunk; it rises to the end of each chunk.
    """
    while position < size:
        header = scan.chunk_at(position, minimum_offset)
        if header is None:
            found = scan.find_chunk(position, minimum_offset)
            yield FoundFault(position, size if found is None else found, found is None)
            if found is None:
                return
            position = found
            continue
        yield FoundChunk(position, header, scan.read(position, header.chunk_bytes))
        position += header.chunk_bytes
        minimum_offset = max(minimum_offset, header.end_offset)
