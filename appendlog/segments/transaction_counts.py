"""Counting the messages of each transaction that a log already holds."""

from collections import Counter
from collections.abc import Sequence

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import CHUNK_HEADER_BYTES, FLAG_TRANSACTION, TRANSACTION_ID_BYTES
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment


def transaction_counts(
    segments: Sequence[Segment],
    start: int,
    filesystem: FileSystem,
    descriptors: Descriptors,
    salt: int,
) -> Counter[bytes]:
    """Return how many PERSISTENT records of each transaction are at or above `start`.

    Reads the segments that reach past `start`, and checks the CRC of each chunk: one damaged
    header would hide all later chunks, and their messages would be appended again.

    Args:
        segments: Segments of one log.
        start: First offset of a chunk, inclusive.
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        salt: Salt of the log, which its chunks carry.

    Raises:
        OSError: A file cannot be read.
    """
    counts: Counter[bytes] = Counter()
    for segment in segments:
        if segment.end_offset <= start:
            continue
        with descriptors.borrow(filesystem, segment.path) as descriptor:
            scan = SegmentScan(filesystem, descriptor, segment.data_bytes, salt)
            _count(scan, segment, start, counts)
    return counts


def _count(scan: SegmentScan, segment: Segment, start: int, counts: Counter[bytes]) -> None:
    position: int | None = segment.header_bytes
    minimum = segment.base_offset
    while position is not None and position < segment.data_bytes:
        chunk = scan.chunk_at(position, minimum)
        if chunk is None:
            position = scan.find_chunk(position, minimum)
            continue
        minimum = chunk.end_offset
        if chunk.flags & FLAG_TRANSACTION and chunk.base_offset >= start:
            transaction_id = scan.read(position + CHUNK_HEADER_BYTES, TRANSACTION_ID_BYTES)
            counts[transaction_id] += chunk.record_count - chunk.transient_count
        position += chunk.chunk_bytes
