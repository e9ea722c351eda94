"""Append times of one log: they follow the wall clock, and never decrease within a segment.

A clock that was wrong for a moment must not stamp all later records. So append times step back to
the clock when the last append time is too far ahead of it; the writer then begins a segment.
See docs/log-format.md, section 1.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

logger = logging.getLogger("appendlog.segments.append_clock")

AHEAD_NS_MAX: Final = 60 * 10**9
"""Limit, in ns, for an append time ahead of the clock: small steps back of clocks are common."""


def system_time_ns() -> int:
    """Return the time of day of the machine, in nanoseconds since 1970 UTC."""
    return time.time_ns()


def is_ahead(timestamp_ns: int, now_ns: int) -> bool:
    """Return whether an append time is so far ahead that the clock must have been wrong once."""
    return timestamp_ns - now_ns > AHEAD_NS_MAX


class AppendClock:
    """Source of the append times of one log. For one thread at a time.

    Args:
        directory: Directory of the log, named in the warning.
        last_ns: Append time of the last record; 0 when there is none.
        time_ns: Returns the time of day, in nanoseconds since 1970 UTC.
    """

    __slots__ = ("_directory", "_last_ns", "_time_ns")

    def __init__(
        self, directory: Path, last_ns: int, time_ns: Callable[[], int] = system_time_ns
    ) -> None:
        self._time_ns = time_ns
        self._directory = directory
        self._last_ns = last_ns

    def now_ns(self) -> int:
        """Return the append time of the next record, nanoseconds since 1970 UTC.

        Never below the previous one, unless that is more than `AHEAD_NS_MAX` ahead of the clock.
        """
        now_ns = self._time_ns()
        last_ns = self._last_ns
        if now_ns < last_ns:
            if not is_ahead(last_ns, now_ns):
                return last_ns
            warn_of_step(self._directory, last_ns, now_ns)
        self._last_ns = now_ns
        return now_ns


def ahead_ns(directory: Path, last_ns: int, now_ns: int) -> int:
    """Return how far the last append time is ahead of the clock, in ns; log a warning if too far.

    0 if it is not too far ahead, or if the log has no record.
    """
    if not last_ns or not is_ahead(last_ns, now_ns):
        return 0
    logger.warning(
        "append time ahead of the clock path=%s seconds=%.3f: the clock was wrong when the last "
        "message was written, or is wrong now; check the clock",
        directory,
        (last_ns - now_ns) / 1e9,
    )
    return last_ns - now_ns


def warn_of_step(directory: Path, last_ns: int, now_ns: int) -> None:
    """Log that the next append time is below the last one, and why."""
    logger.warning(
        "append times step back path=%s seconds=%.3f: the last append time is too far ahead of the "
        "clock, which was wrong then or is wrong now; the next message begins a segment, with the "
        "time of the clock",
        directory,
        (last_ns - now_ns) / 1e9,
    )
