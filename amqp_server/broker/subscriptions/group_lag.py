"""The lag of a position in a log: in bytes, and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appendlog import Log
    from appendlog.segments.segment import Segment


def lag_bytes(segments: Sequence[Segment], start: int, end: int) -> int:
    """Return about how many bytes of segment files the offsets `[start, end)` take.

    Exact for whole segments. A part of a segment counts by its share of the segment's messages.
    Reads no file.
    """
    total = 0
    for segment in segments:
        records = segment.end_offset - segment.base_offset
        within = min(end, segment.end_offset) - max(start, segment.base_offset)
        if within <= 0:
            continue
        total += (segment.data_bytes - segment.header_bytes) * within // records
    return total


def timestamp_ns_at(log: Log, offset: int) -> int | None:
    """Return when the first record at or after an offset was appended; None without one.

    Reads the disk.

    Raises:
        LogFailedError: The log cannot be read.
    """
    found = log.read(offset, max_bytes=1, max_records=1)
    return found.timestamps_ns[0] if found.record_count else None
