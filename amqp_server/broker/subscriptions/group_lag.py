"""How far a place in a log is behind its end: in bytes, and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appendlog import Log
    from appendlog.segments.segment import Segment


def lag_bytes(segments: Sequence[Segment], start: int, end: int) -> int:
    """Return about how many bytes of segment files the offsets `[start, end)` take.

    Exact for whole segments; of one that `start` or `end` lies in it is the share that it would
    be if all its messages were of one size. Looks at no file.
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
    """Return when the first record at or behind an offset was appended; None if there is none.

    Reads the disk.

    Raises:
        LogFailedError: It cannot be read.
    """
    found = log.read(offset, max_bytes=1, max_records=1)
    return found.timestamps_ns[0] if found.record_count else None
