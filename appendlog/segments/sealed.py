"""Reading the footer of a sealed segment, without a scan."""

import os
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import own_header
from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CHUNK_HEADER_BYTES,
    FOOTER_MAGIC,
    FOOTER_TRAILER,
    FOOTER_TRAILER_BYTES,
)
from appendlog.layout.segment_header import segment_header_bytes
from appendlog.layout.summary import (
    PLAIN_FOOTER_BYTES,
    SegmentSummary,
    decode_footer,
    decode_removed,
)
from appendlog.segments.segment import Segment, SegmentName


def read_footer(
    filesystem: FileSystem, descriptor: int, salt: int, base_offset: int
) -> tuple[SegmentSummary, bytes] | None:
    """Return the sums at the end of a segment file, and the footer chunk that holds them.

    Args:
        filesystem: File operations.
        descriptor: Descriptor of the open file.
        salt: Salt of the log.
        base_offset: Base offset of the segment.

    Returns:
        None if there is no valid footer at the end of the file.

    Raises:
        OSError: The file cannot be read.
    """
    size = filesystem.size(descriptor)
    tail_bytes = min(size, PLAIN_FOOTER_BYTES)
    tail = filesystem.read_all(descriptor, tail_bytes, size - tail_bytes)
    if len(tail) < PLAIN_FOOTER_BYTES:
        return None
    footer_bytes, magic = FOOTER_TRAILER.unpack(tail[-FOOTER_TRAILER_BYTES:])
    if magic != FOOTER_MAGIC or not PLAIN_FOOTER_BYTES <= footer_bytes <= size:
        return None
    if footer_bytes > tail_bytes:
        tail = filesystem.read_all(descriptor, footer_bytes, size - footer_bytes)
    chunk = tail[-footer_bytes:]
    header = own_header(chunk, salt, base_offset)
    if header is None or header.chunk_bytes != len(chunk):
        return None
    if crc32c(memoryview(chunk)[CHUNK_CRC_START:]) != header.crc:
        return None
    summary = decode_footer(chunk[CHUNK_HEADER_BYTES:])
    return None if summary is None else (summary, chunk)


def read_sealed(
    directory: Path,
    identity: LogIdentity,
    name: SegmentName,
    filesystem: FileSystem,
    descriptors: Descriptors,
    open_flags: int = os.O_RDWR,
) -> Segment | None:
    """Return a segment as its footer describes it, or None if it has no valid footer.

    Reads only the end of the file.

    Raises:
        OSError: The file cannot be read.
    """
    with descriptors.borrow(filesystem, directory / name.file_name, open_flags) as descriptor:
        size = filesystem.size(descriptor)
        footer = read_footer(filesystem, descriptor, identity.salt, name.base_offset)
    if footer is None:
        return None
    summary, chunk = footer
    segment = Segment(directory, name, segment_header_bytes(identity), summary)
    segment.size_bytes = size
    segment.data_bytes = size - len(chunk)
    segment.is_sealed = True
    return segment


def removed_by_compaction(
    segments: Sequence[Segment],
    start: int,
    filesystem: FileSystem,
    descriptors: Descriptors,
    salt: int,
) -> list[tuple[int, int]]:
    """Return the ranges at or above `start` that compaction removed, as listed in the footers.

    Skips footers in which ranges had to be joined for lack of space: those are not exact.

    Args:
        segments: Segments of one log.
        start: First offset, inclusive.
        filesystem: File operations.
        descriptors: Cache of open files.
        salt: Salt of the log, which its chunks carry.

    Raises:
        OSError: A file cannot be read.
    """
    removed: list[tuple[int, int]] = []
    for segment in segments:
        if not segment.name.generation or segment.end_offset <= start:
            continue
        with descriptors.borrow(filesystem, segment.path) as descriptor:
            footer = read_footer(filesystem, descriptor, salt, segment.base_offset)
        if footer is not None:
            ranges, are_joined = decode_removed(footer[1][CHUNK_HEADER_BYTES:])
            if not are_joined:
                removed += [(max(low, start), high) for low, high in ranges if high > start]
    return removed
