"""The clock that deadlines of messages go by: nobody can set it, unlike the wall clock.

A log knows append times, by the wall clock. `since_ms` says when that was by this one: as long ago
as the wall clock says, and never in the future. So a message that was stamped by a clock that was
ahead lives no longer than one that has just come.
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return milliseconds since some moment; it may be after a recovered message's append time."""
    return time.monotonic_ns() // 1_000_000


class AppendTimes:
    """Append times by the steady clock, as both clocks stand when it is made."""

    __slots__ = ("_ahead_ms", "_now_ms")

    def __init__(self) -> None:
        self._now_ms = now_ms()
        self._ahead_ms = time.time_ns() // 1_000_000 - self._now_ms

    def since_ms(self, timestamp_ns: int) -> int:
        """Return when a message was appended, by the steady clock; now at the latest.

        Args:
            timestamp_ns: Nanoseconds since 1970 UTC.
        """
        return min(timestamp_ns // 1_000_000 - self._ahead_ms, self._now_ms)
