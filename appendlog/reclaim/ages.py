"""Ages of segments, even if a wrong clock has stamped some of them. No I/O.

A segment is as old as its last record. If that time is too far ahead of the clock, the age counts
from the first later record with a plausible time, because nothing in the segment was written after
that. Until there is one, the age counts from the making of the next segment, or from the opening or
first check of the log. So the segment is removed at most its maximum age too late.
"""

from collections.abc import Sequence

from appendlog.segments.append_clock import is_ahead
from appendlog.segments.segment import Segment


def written_by(segments: Sequence[Segment], now_ns: int) -> list[int]:
    """Return, for each segment, a time by which it was written completely, ns since 1970 UTC.

    O(segments).

    Args:
        segments: Segments of one log, oldest first, none left out after the first.
        now_ns: Wall clock, ns since 1970 UTC.
    """
    times: list[int] = []
    behind_ns = now_ns
    for segment in reversed(segments):
        summary = segment.summary
        is_wrong = is_ahead(summary.last_timestamp_ns, now_ns)
        times.append(behind_ns if is_wrong else summary.last_timestamp_ns)
        if summary.record_count and not is_ahead(summary.first_timestamp_ns, now_ns):
            behind_ns = summary.first_timestamp_ns
        else:
            behind_ns = min(behind_ns, segment.begun_by(now_ns))
    times.reverse()
    return times
