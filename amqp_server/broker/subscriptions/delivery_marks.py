"""When messages were first delivered, as few marks as an answer in seconds needs."""

from __future__ import annotations

from bisect import bisect_right
from time import monotonic

MARK_SECONDS = 0.5
"""Deliveries within it share a mark, and count from its end: never too early."""
MARKS_MAX = 4096
"""Of more, every other one is forgotten; what it covered counts from the next."""


class DeliveryMarks:
    """Moments up to which a subscription had delivered how far. The event loop owns it.

    What is delivered for the first time goes out in order of offset, so a mark is an offset and
    a time: all below the one were first delivered by the other.

    Args:
        delivered_end: What lies below it was delivered before, nobody knows when: it counts
            from now.
    """

    def __init__(self, delivered_end: int) -> None:
        self._ends = [delivered_end]
        self._begun = [monotonic()]
        self._seconds = [monotonic()]

    def note(self, end: int) -> None:
        """Take note that all below `end` was delivered by now; never lower than before."""
        now = monotonic()
        if now - self._begun[-1] < MARK_SECONDS:
            self._ends[-1], self._seconds[-1] = end, now
            return
        self._ends.append(end)
        self._begun.append(now)
        self._seconds.append(now)
        if len(self._ends) > MARKS_MAX:
            for marks in (self._ends, self._begun, self._seconds):
                # From the end, so that the last one stays.
                del marks[-2::-2]

    def forget_below(self, floor: int) -> None:
        """Let go of what nobody will ask for: all below `floor` is settled."""
        used = min(bisect_right(self._ends, floor), len(self._ends) - 1)
        for marks in (self._ends, self._begun, self._seconds):
            del marks[:used]

    def age_seconds(self, offset: int) -> float:
        """Return how long ago an offset that was delivered first was, at least."""
        at = min(bisect_right(self._ends, offset), len(self._ends) - 1)
        return max(monotonic() - self._seconds[at], 0.0)
