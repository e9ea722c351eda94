"""Append times of one log: they follow the wall clock, and never decrease within a segment.

A clock that was wrong for a moment must not stamp what comes after it. So when the last append
time lies too far ahead of the clock, times step back to the clock; the writer begins a segment
there. See docs/log-format.md, section 1.
"""

import logging
import time
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

AHEAD_NS_MAX: Final = 60 * 10**9
"""An append time may lie this far ahead of the clock: clocks are set back a little all the time."""


def is_ahead(timestamp_ns: int, now_ns: int) -> bool:
    """Tell whether an append time lies so far ahead of the clock that the clock was wrong once."""
    return timestamp_ns - now_ns > AHEAD_NS_MAX


class AppendClock:
    """Gives the append times of one log. One thread at a time.

    Args:
        directory: Directory of the log, for the warning.
        last_ns: Append time of the last record; 0 when there is none.
    """

    __slots__ = ("_directory", "_last_ns")

    def __init__(self, directory: Path, last_ns: int) -> None:
        self._directory = directory
        self._last_ns = last_ns

    def now_ns(self) -> int:
        """Return the append time of the next record, nanoseconds since 1970 UTC.

        At least the one before, unless that lies more than `AHEAD_NS_MAX` ahead of the clock.
        """
        now_ns = time.time_ns()
        last_ns = self._last_ns
        if now_ns < last_ns:
            if not is_ahead(last_ns, now_ns):
                return last_ns
            warn_of_step(self._directory, last_ns, now_ns)
        self._last_ns = now_ns
        return now_ns


def ahead_ns(directory: Path, last_ns: int) -> int:
    """Return how far the last append time of a log lies ahead of the clock, and say so.

    0 where that is not too far, or where the log has no record.
    """
    if not last_ns or not is_ahead(last_ns, now_ns := time.time_ns()):
        return 0
    logger.warning(
        "append time ahead of the clock path=%s seconds=%.3f: the clock was wrong when the last "
        "message was written, or is wrong now; check it",
        directory,
        (last_ns - now_ns) / 1e9,
    )
    return last_ns - now_ns


def warn_of_step(directory: Path, last_ns: int, now_ns: int) -> None:
    """Say that the next append time will be less than the last one, and why."""
    logger.warning(
        "append times step back path=%s seconds=%.3f: the last append time is so far ahead of the "
        "clock, which was wrong then or is wrong now; the next message begins a segment, with the "
        "time of the clock",
        directory,
        (last_ns - now_ns) / 1e9,
    )
