"""The monotonic clock of message deadlines: nothing can set it, unlike the wall clock.

A log stores append times by the wall clock. `since_ms` converts them to the steady clock, and never
to a time in the future. So a message whose time stamp came from a clock that was ahead lives no
longer than a new one.
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return milliseconds of the steady clock; a recovered message may be older than its zero."""
    return time.monotonic_ns() // 1_000_000


class AppendTimes:
    """Converts append times to the steady clock, by the state of both clocks at its creation."""

    __slots__ = ("_ahead_ms", "_now_ms")

    def __init__(self) -> None:
        self._now_ms = now_ms()
        self._ahead_ms = time.time_ns() // 1_000_000 - self._now_ms

    def since_ms(self, timestamp_ns: int) -> int:
        """Return when a message was appended, by the steady clock; now at the latest.

        Args:
            timestamp_ns: Append time in nanoseconds since 1970 UTC.
        """
        return min(timestamp_ns // 1_000_000 - self._ahead_ms, self._now_ms)
