"""Sums of the active segment up to the durable end, stored after a slot of the `end` file.

With them a log can be opened without reading its whole active segment. Like a footer, they are
trusted unless the segment contradicts them. Source: docs/log-format.md, section 8.
"""

from appendlog.layout.crc import crc32c
from appendlog.layout.format import (
    CHUNK_CRC_START,
    CRC_FRONT,
    END_SUMS,
    END_SUMS_BYTES,
    END_SUMS_MAGIC,
    END_SUMS_TAIL,
)
from appendlog.layout.summary import SegmentSummary


def encode_sums(summary: SegmentSummary, generation: int) -> bytes:
    """Return the bytes to store after the slot of that generation."""
    tail = END_SUMS_TAIL.pack(
        generation,
        summary.chunk_count,
        0,
        summary.first_offset,
        summary.end_offset,
        summary.record_count,
        summary.transient_count,
        summary.body_bytes,
        summary.first_timestamp_ns,
        summary.last_timestamp_ns,
        summary.min_expiry_ns,
        summary.max_expiry_ns,
        summary.priority_bitmap,
    )
    return CRC_FRONT.pack(END_SUMS_MAGIC, crc32c(tail)) + tail


def decode_sums(data: bytes, generation: int) -> SegmentSummary | None:
    """Return the sums after a slot; None if they are torn, absent or of another slot."""
    if len(data) != END_SUMS_BYTES:
        return None
    magic, crc, of_generation, chunk_count, _, first_offset, end_offset, *sums = END_SUMS.unpack(
        data
    )
    if magic != END_SUMS_MAGIC or of_generation != generation:
        return None
    if crc32c(data[CHUNK_CRC_START:]) != crc:
        return None
    record_count, transient_count, body_bytes, first_timestamp_ns, last_timestamp_ns = sums[:5]
    min_expiry_ns, max_expiry_ns, priority_bitmap = sums[5:]
    return SegmentSummary(
        first_offset=first_offset,
        end_offset=end_offset,
        last_timestamp_ns=last_timestamp_ns,
        chunk_count=chunk_count,
        record_count=record_count,
        transient_count=transient_count,
        body_bytes=body_bytes,
        first_timestamp_ns=first_timestamp_ns,
        min_expiry_ns=min_expiry_ns,
        max_expiry_ns=max_expiry_ns,
        priority_bitmap=priority_bitmap,
    )
