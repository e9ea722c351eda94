"""How old segments are, when a clock has stamped some of them that was wrong. No I/O.

A segment is as old as its last record. Where that lies too far ahead of the clock, the segment
counts from the first record behind it whose time can be right, because nothing in the segment was
written later than that. Until there is one, it counts from when the next segment was made, or from
when the log was opened or first looked at since: so it goes, by age, at most its age later.
"""

from collections.abc import Sequence

from appendlog.segments.append_clock import is_ahead
from appendlog.segments.segment import Segment


def written_by(segments: Sequence[Segment], now_ns: int) -> list[int]:
    """Return, for each segment, by when all of it was written, nanoseconds since 1970 UTC.

    O(segments).

    Args:
        segments: Of one log, oldest first, none left out behind the first.
        now_ns: The wall clock.
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
