"""The short way to recover a log: it is as its `end` file says, byte for byte.

So are nearly all logs, after a clean stop as after a crash: the durable end is written with each
write. There is nothing to repair then, and what there is to check is in the log's image. Where
anything is not as it should be, this changes nothing, reports nothing, and leaves the log to
`log_recovery`.

Source: docs/log-format.md, section 9.
"""

import time

from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    CHUNK_PREFIX,
    CHUNK_PREFIX_BYTES,
    INDEX_ENTRY_BYTES,
)
from appendlog.layout.segment_header import decode_segment_header, segment_header_bytes
from appendlog.recovery.known_sums import resumed_index
from appendlog.recovery.log_images import LogImage
from appendlog.recovery.log_recovery import RecoveredLog
from appendlog.recovery.segment_recovery import RecoveryContext
from appendlog.segments.append_clock import ahead_ns
from appendlog.segments.durable_end import newest_slot
from appendlog.segments.index import ActiveIndex, IndexEntry, IndexTable, index_header
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment, SegmentName


def recover_unchanged(context: RecoveryContext, image: LogImage) -> RecoveredLog | None:
    """Return the log and fill in the context's report; None if `recover` has to do both.

    Args:
        context: Arguments and results of the recovery.
        image: What is in the directory of the log.

    Raises:
        UnsupportedFormatError: The segment is of another format version.
    """
    started = time.perf_counter()
    identity = context.identity
    durable = newest_slot(image.end, identity.incarnation)
    if durable is None or durable.summary is None or durable.position != image.log_bytes:
        return None
    sums = durable.summary
    if sums.end_offset != durable.recovery_point or context.known_end > sums.end_offset:
        return None
    name = SegmentName(durable.segment_base_offset, durable.segment_generation)
    if image.log_name != name.file_name:
        return None
    segment = Segment(context.directory, name, segment_header_bytes(identity), sums)
    header = decode_segment_header(image.head, segment.path)
    if header is None or header.identity != identity:
        return None
    if (header.base_offset, header.generation) != name:
        return None
    index = _index(context, image, segment, header.previous_timestamp_ns)
    if index is None:
        return None
    segment.begun_ns = min(context.now_ns, header.created_ns)
    segment.size_bytes = segment.data_bytes = durable.position
    segment.index = index
    report = context.report
    report.segment_count = 1
    report.record_count = sums.record_count
    report.end_offset = sums.end_offset
    last_ns = sums.last_timestamp_ns if sums.record_count else 0
    report.ahead_ns = ahead_ns(context.directory, last_ns, context.now_ns)
    report.seconds = time.perf_counter() - started
    return RecoveredLog([segment], sums.end_offset, sums.end_offset, durable)


def _index(
    context: RecoveryContext, image: LogImage, segment: Segment, previous_ns: int
) -> ActiveIndex | None:
    """Return the index of the segment; None if the sums of the durable end cannot be trusted."""
    salt = context.identity.salt
    scan = SegmentScan.of_window(
        image.foot, image.foot_start, image.log_bytes, salt, _passed_headers(image)
    )
    table, passed_over = None, 0
    if image.index_bytes >= 0:
        if image.index_part[:INDEX_ENTRY_BYTES] != index_header(salt, segment.base_offset):
            return None
        table = IndexTable.of_file(segment.base_offset, image.index_part)
        passed_over = (image.index_bytes - len(image.index_part)) // INDEX_ENTRY_BYTES
    first = IndexEntry(segment.base_offset, segment.header_bytes, previous_ns)
    index = ActiveIndex(segment.base_offset, context.index_interval_bytes)
    end = (image.log_bytes, segment.end_offset)
    return resumed_index(scan, first, table, passed_over, end, index)


def _passed_headers(image: LogImage) -> dict[int, bytes]:
    """Return the headers of the chunks before the foot by their positions."""
    headers = {}
    position = image.foot_start
    for at in range(len(image.passed) - CHUNK_HEADER_BYTES, -1, -CHUNK_HEADER_BYTES):
        header = image.passed[at : at + CHUNK_HEADER_BYTES]
        _, _, length = CHUNK_PREFIX.unpack_from(header)
        position -= CHUNK_PREFIX_BYTES + length
        headers[position] = header
    return headers
