"""Append times of recovered messages, as the clock of their deadlines has them.

A log stores append times by the time of day. `since_ms` converts them to the monotonic clock, which
nothing can set, and never to a time in the future. So a message whose time stamp came from a clock
that was ahead lives no longer than a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.base.clock import Clock


class AppendTimes:
    """Converts append times to monotonic ones, by the state of both at its creation.

    Args:
        clock: Source of both.
    """

    __slots__ = ("_ahead_ms", "_now_ms")

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms()
        self._ahead_ms = clock.time_ns() // 1_000_000 - self._now_ms

    def since_ms(self, timestamp_ns: int) -> int:
        """Return when a message was appended, in monotonic milliseconds; now at the latest.

        It may be negative: a recovered message may be older than the clock's zero.

        Args:
            timestamp_ns: Append time in nanoseconds since 1970 UTC.
        """
        return min(timestamp_ns // 1_000_000 - self._ahead_ms, self._now_ms)
