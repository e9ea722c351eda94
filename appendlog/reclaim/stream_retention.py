"""Which segments of a log go that nobody settles: the oldest, by age or by what all take.

Whole sealed segments only, and never the last one. Nothing here does I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from appendlog.reclaim.ages import written_by
from appendlog.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """What a stream keeps; None is no such bound.

    Attributes:
        max_age_ns: A segment goes when its last record is older, > 0.
        max_bytes: The oldest segments go while all together are larger, the last one included,
            >= 0.
    """

    max_age_ns: int | None = None
    max_bytes: int | None = None


def stream_start(segments: Sequence[Segment], bounds: StreamBounds, now_ns: int) -> int:
    """Return the offset below which all segments are to go; 0 when none is.

    Args:
        segments: Of one log, oldest first.
        bounds: Of the log.
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
