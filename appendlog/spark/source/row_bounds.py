"""Bounds on offsets, times and queues, outside of which a query needs no rows."""

from dataclasses import dataclass
from typing import Final, Self

_Bounds = tuple[int | None, int | None]
_EVERYTHING: Final[_Bounds] = (None, None)


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Bounds of the rows that a query needs; None is no bound. Picklable.

    Attributes:
        offsets: Range `[start, end)` of offsets.
        times_ns: Range `[start, end)` of append times, nanoseconds since 1970 in UTC.
        topics: Names of queues.
    """

    offsets: _Bounds = _EVERYTHING
    times_ns: _Bounds = _EVERYTHING
    topics: frozenset[str] | None = None

    def within(
        self,
        offsets: _Bounds = _EVERYTHING,
        times_ns: _Bounds = _EVERYTHING,
        topics: frozenset[str] | None = None,
    ) -> Self:
        """Return the intersection of two bounds."""
        both = self.topics if topics is None else topics
        if self.topics is not None and topics is not None:
            both = self.topics & topics
        return type(self)(_both(self.offsets, offsets), _both(self.times_ns, times_ns), both)

    def has_topic(self, topic: str) -> bool:
        """Return whether a query may need rows of a queue."""
        return self.topics is None or topic in self.topics


def clip(start: int, end: int, bounds: _Bounds) -> tuple[int, int]:
    """Return the part of `[start, end)` within the bounds; an empty range at `start` if none is."""
    low, high = bounds
    first = start if low is None else max(start, low)
    last = end if high is None else min(end, high)
    return (first, last) if first < last else (start, start)


def _both(first: _Bounds, second: _Bounds) -> _Bounds:
    lows = [low for low, _ in (first, second) if low is not None]
    highs = [high for _, high in (first, second) if high is not None]
    return max(lows, default=None), min(highs, default=None)
