"""Retention of a stream, which has no settlement: removes the oldest segments, by age or size.

Only whole sealed segments, and never the last one. No I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from appendlog.reclaim.ages import written_by
from appendlog.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """Retention bounds of a stream; None means no such bound.

    Attributes:
        max_age_ns: Maximum age of a segment's last record, > 0.
        max_bytes: Maximum size of all segments, including the last one, >= 0; the oldest ones are
            removed first.
    """

    max_age_ns: int | None = None
    max_bytes: int | None = None


def stream_start(segments: Sequence[Segment], bounds: StreamBounds, now_ns: int) -> int:
    """Return the offset below which all segments are to be removed; 0 if there are none.

    Args:
        segments: Segments of one log, oldest first.
        bounds: Bounds of the log.
        now_ns: Nanoseconds since 1970 UTC.
    """
    if bounds.max_age_ns is None and bounds.max_bytes is None:
        return 0
    kept_bytes = sum(segment.size_bytes for segment in segments)
    start = 0
    for segment, written_ns in zip(segments[:-1], written_by(segments, now_ns), strict=False):
        is_old = bounds.max_age_ns is not None and written_ns < now_ns - bounds.max_age_ns
        is_too_much = bounds.max_bytes is not None and kept_bytes > bounds.max_bytes
        if not segment.is_sealed or not (is_old or is_too_much):
            break
        kept_bytes -= segment.size_bytes
        start = segment.end_offset
    return start
