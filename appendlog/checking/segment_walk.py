"""All bytes of a segment behind its header, as chunks and as what is none."""

from collections.abc import Iterator
from dataclasses import dataclass

from appendlog.layout.chunk import ChunkHeader
from appendlog.segments.scan import SegmentScan


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A whole valid chunk.

    Attributes:
        position: Where it starts.
        header: Its header.
        data: All its bytes.
    """

    position: int
    header: ChunkHeader
    data: bytes


@dataclass(frozen=True, slots=True)
class FoundFault:
    """Bytes that hold no valid chunk of this log.

    Attributes:
        position: Where they start.
        end: Where the next valid chunk starts, or the bytes looked at end.
        is_tail: No valid chunk follows.
    """

    position: int
    end: int
    is_tail: bool


def walk_segment(
    scan: SegmentScan, position: int, size: int, minimum_offset: int
) -> Iterator[FoundChunk | FoundFault]:
    """Return what stands in `[position, size)`, in order; every CRC is checked.

    Args:
        scan: Of the segment, of the same size.
        position: Where the first chunk should start.
        size: Bytes to look at.
        minimum_offset: A chunk with a lower base offset than this, or than the end of the chunk
            before it, is none.
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
