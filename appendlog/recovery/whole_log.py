"""The short way to recover a log: one segment, in which nothing is torn, damaged or lost.

Nearly all logs are as their `end` files say, byte for byte, after a clean stop as after a crash:
the durable end is written with each write. It is not synced, though. After a power cut the files
of all logs that were written last are old, and whole chunks follow the end that they name. There is
nothing to repair in either case, and what there is to check is in the log's image. Where anything
is not as it should be, this changes nothing, reports nothing, and leaves the log to `log_recovery`.

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
from appendlog.layout.summary import SegmentSummary
from appendlog.recovery.known_sums import resumed_index
from appendlog.recovery.log_images import LogImage
from appendlog.recovery.log_recovery import RecoveredLog
from appendlog.recovery.segment_recovery import RecoveryContext, add_stretch
from appendlog.segments.append_clock import ahead_ns
from appendlog.segments.durable_end import DurableEnd, newest_slot
from appendlog.segments.index import ActiveIndex, IndexEntry, IndexTable, index_header
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment, segment_names


def recover_whole(context: RecoveryContext, image: LogImage) -> RecoveredLog | None:
    """Return the log and fill in the context's report; None if `recover` has to do both.

    Args:
        context: Arguments and results of the recovery.
        image: What is in the directory of the log.

    Raises:
        UnsupportedFormatError: The segment is of another format version.
    """
    started = time.perf_counter()
    identity = context.identity
    segment = _segment(context, image)
    durable = newest_slot(image.end, identity.incarnation)
    if segment is None:
        return None
    scan = SegmentScan.of_window(
        image.foot, image.foot_start, image.log_bytes, identity.salt, _passed_headers(image)
    )
    known_bytes = segment.header_bytes
    # A slot that names no octet promises nothing: see section 8.
    if durable is not None and durable.position:
        if not _take_known(context, image, segment, scan, durable):
            return None
        known_bytes = durable.position
    end = _take_rest(context, segment, scan, known_bytes, image.log_bytes)
    once_end = max(context.known_end, 0 if durable is None else durable.recovery_point)
    if end != image.log_bytes or once_end > segment.end_offset:
        return None
    segment.size_bytes = segment.data_bytes = end
    summary, report = segment.summary, context.report
    report.segment_count = 1
    report.scanned_bytes = end - known_bytes
    report.record_count = summary.record_count
    report.end_offset = summary.end_offset
    last_ns = summary.last_timestamp_ns if summary.record_count else 0
    report.ahead_ns = ahead_ns(context.directory, last_ns, context.now_ns)
    report.seconds = time.perf_counter() - started
    is_as_said = durable is not None and durable.position == end
    return RecoveredLog([segment], summary.end_offset, summary.end_offset, durable, is_as_said)


def _segment(context: RecoveryContext, image: LogImage) -> Segment | None:
    """Return the segment as its header describes it; None if the file is not what its name says."""
    names = segment_names([image.log_name])
    if not names or names[0].file_name != image.log_name:
        return None
    name = names[0]
    summary = SegmentSummary(name.base_offset, name.base_offset, 0)
    segment = Segment(context.directory, name, segment_header_bytes(context.identity), summary)
    header = decode_segment_header(image.head, segment.path)
    if header is None or header.identity != context.identity:
        return None
    if (header.base_offset, header.generation) != name:
        return None
    summary.last_timestamp_ns = header.previous_timestamp_ns
    segment.begun_ns = min(context.now_ns, header.created_ns)
    segment.index = ActiveIndex(name.base_offset, context.index_interval_bytes)
    return segment


def _take_known(
    context: RecoveryContext,
    image: LogImage,
    segment: Segment,
    scan: SegmentScan,
    durable: DurableEnd,
) -> bool:
    """Use the sums and the index up to the durable end; return False if they cannot be trusted."""
    sums, index = durable.summary, segment.index
    assert index is not None, "a segment that is opened has an index"
    if sums is None or sums.end_offset != durable.recovery_point:
        return False
    if (durable.segment_base_offset, durable.segment_generation) != segment.name:
        return False
    if durable.position > image.log_bytes:
        return False
    table, passed_over = None, 0
    if image.index_bytes >= 0:
        header = index_header(context.identity.salt, segment.base_offset)
        if image.index_part[:INDEX_ENTRY_BYTES] != header:
            return False
        table = IndexTable.of_file(segment.base_offset, image.index_part)
        passed_over = (image.index_bytes - len(image.index_part)) // INDEX_ENTRY_BYTES
    first = IndexEntry(segment.base_offset, segment.header_bytes, segment.summary.last_timestamp_ns)
    end = (durable.position, sums.end_offset)
    segment.index = resumed_index(scan, first, table, passed_over, end, index)
    segment.summary = sums
    return segment.index is not None


def _take_rest(
    context: RecoveryContext, segment: Segment, scan: SegmentScan, position: int, end: int
) -> int:
    """Add the chunks behind the durable end; return where something else than data follows."""
    index = segment.index
    assert index is not None, "a segment that is opened has an index"
    before = -1
    while before < position < end:
        before = position
        position = add_stretch(scan, position, segment.summary, index, context.index_interval_bytes)
    return position


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
