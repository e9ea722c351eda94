"""How often messages came back: for the delivery limit and the header that tells consumers.

Source: RabbitMQ, quorum queues: every return of a message counts, whoever returned it; with one
return more than the limit the message is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from offsets.settlement import Settlement

_PRUNE_MIN = 1024
"""Counts that have to be there before it is worth looking for settled messages."""


class DeliveryCounts:
    """Returns of one queue's unsettled messages; one that never came back has no entry.

    Args:
        limit: Returns allowed; None allows any number.
        counts: Known from before, by offset.
    """

    def __init__(self, limit: int | None, counts: Mapping[int, int]) -> None:
        """Go on from `counts`."""
        self._limit = limit
        self._counts = dict(counts)
        self._prune_at = _PRUNE_MIN

    def get(self, offset: int) -> int:
        """Return how often the message came back."""
        return self._counts.get(offset, 0)

    def add(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Count one return of each of `[start, end)`.

        Yields:
            Start and end of neighbours, and whether these have come back too often.
        """
        low, is_over = start, False
        for offset in range(start, end):
            count = self._counts[offset] = self._counts.get(offset, 0) + 1
            over = self._limit is not None and count > self._limit
            if over != is_over and low < offset:
                yield low, offset, is_over
                low = offset
            is_over = over
        yield low, end, is_over

    def offsets(self) -> list[int]:
        """Return the offsets that have come back, in order. O(counts), and sorted."""
        return sorted(self._counts)

    def known(self, settlement: Settlement) -> dict[int, int]:
        """Return the counts of what is not settled."""
        self._counts = {
            offset: count
            for offset, count in self._counts.items()
            if not settlement.is_settled(offset)
        }
        return dict(self._counts)

    def prune(self, settlement: Settlement) -> None:
        """Let go of what is settled, when there may be much of it."""
        if len(self._counts) >= self._prune_at:
            self.known(settlement)
            self._prune_at = max(2 * len(self._counts), _PRUNE_MIN)
