"""Rebuilding an index from the chunks of its segment."""

from pathlib import Path

from appendlog.checking.segment_walk import FoundChunk, walk_segment
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import SegmentSummary
from appendlog.options import LogOptions
from appendlog.segments.index import IndexEntry, IndexTable, index_header, replace_index
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import SegmentName


def rebuild_index(
    directory: Path, name: SegmentName, identity: LogIdentity, filesystem: FileSystem
) -> int:
    """Write the index of a segment again, and return its number of entries.

    Raises:
        OSError: A file operation failed; the old index is unchanged.
    """
    path = directory / name.file_name
    table = IndexTable.empty(name.base_offset)
    interval_bytes = LogOptions().index_interval_bytes
    descriptors = Descriptors(1)
    try:
        with descriptors.borrow(filesystem, path, 0) as descriptor:
            size = filesystem.size(descriptor)
            scan = SegmentScan(filesystem, descriptor, size, identity.salt)
            header = decode_segment_header(scan.read(0, SEGMENT_HEADER_BYTES_MAX), path)
            base = name.base_offset
            sums = SegmentSummary(base, base, header.previous_timestamp_ns if header else 0)
            last = -interval_bytes
            start = min(segment_header_bytes(identity), size)
            for found in walk_segment(scan, start, size, name.base_offset):
                if isinstance(found, FoundChunk) and not found.header.is_control:
                    if found.position - last >= interval_bytes:
                        last = found.position
                        time_ns = sums.time_before(found.header.first_timestamp_ns)
                        table.append(IndexEntry(found.header.base_offset, last, time_ns))
                    sums.add(found.header)
    finally:
        descriptors.close()
    header_bytes = index_header(identity.salt, name.base_offset)
    replace_index(filesystem, directory / name.index_name, table, header_bytes)
    return len(table)
