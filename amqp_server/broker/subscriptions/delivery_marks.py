"""When messages were first delivered, in as few marks as an answer in seconds needs."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MARK_SECONDS = 0.5
"""Deliveries within this time share a mark and count from its end: never too early."""
MARKS_MAX = 4096
"""Most marks. Above it every other mark is removed; its messages count from the next one."""


class DeliveryMarks:
    """Times at which a subscription had delivered up to certain offsets. The event loop owns it.

    First deliveries go out in the order of their offsets. So a mark is an offset and a time: all
    messages below the offset were first delivered by that time.

    Args:
        delivered_end: Offset below which messages were delivered at an unknown time; they count
            from now.
        monotonic: Clock, in seconds.
    """

    def __init__(self, delivered_end: int, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._ends = [delivered_end]
        self._begun = [monotonic()]
        self._seconds = [monotonic()]

    def record(self, end: int) -> None:
        """Record that all messages below `end` are delivered by now; `end` never decreases."""
        now = self._monotonic()
        if now - self._begun[-1] < MARK_SECONDS:
            self._ends[-1] = end
            self._seconds[-1] = now
            return
        self._ends.append(end)
        self._begun.append(now)
        self._seconds.append(now)
        if len(self._ends) > MARKS_MAX:
            for marks in (self._ends, self._begun, self._seconds):
                # Start at the end, so that the last mark stays.
                del marks[-2::-2]

    def forget_below(self, floor: int) -> None:
        """Remove the marks of messages below `floor`, which are settled."""
        used = min(bisect_right(self._ends, floor), len(self._ends) - 1)
        for marks in (self._ends, self._begun, self._seconds):
            del marks[:used]

    def age_seconds(self, offset: int) -> float:
        """Return the least time since the first delivery of an offset, in seconds."""
        at = min(bisect_right(self._ends, offset), len(self._ends) - 1)
        return max(self._monotonic() - self._seconds[at], 0.0)
