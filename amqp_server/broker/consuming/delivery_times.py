"""When the deliveries of one channel went out, in as few marks as an answer in seconds needs."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

MARK_SECONDS: Final = 0.5
"""Deliveries within this time may share a mark, and count from its beginning."""
MARKS_MAX: Final = 256
"""Most marks; above it every other one is removed, and its deliveries count from the one before."""


class DeliveryTimes:
    """Times from which on deliveries went out, by delivery tag. The event loop owns it."""

    def __init__(self) -> None:
        self._tags: list[int] = []
        self._seconds: list[float] = []

    def record(self, first_tag: int, now_seconds: float, oldest_tag: int) -> None:
        """Record that the deliveries from a tag on go out now.

        Args:
            first_tag: Higher than all tags before.
            now_seconds: Now, on a clock that never goes back.
            oldest_tag: The lowest tag that is not acknowledged: earlier ones are forgotten.
        """
        self._tags.append(first_tag)
        self._seconds.append(now_seconds)
        if len(self._tags) > MARKS_MAX:
            used = max(bisect_right(self._tags, oldest_tag) - 1, 0)
            for marks in (self._tags, self._seconds):
                del marks[:used]
        if len(self._tags) > MARKS_MAX:
            for marks in (self._tags, self._seconds):
                del marks[1::2]

    def age_seconds(self, tag: int, now_seconds: float) -> float:
        """Return about how long ago a delivery went out; never less than it was.

        It is half a second more at most, unless the deliveries of two minutes are not acknowledged.
        """
        at = bisect_right(self._tags, tag) - 1
        return max(now_seconds - self._seconds[max(at, 0)], 0.0) if self._seconds else 0.0
