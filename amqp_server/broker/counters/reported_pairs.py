"""The counters of pairs that readers of the change feed know, and which of these have gone."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

PAIRS_MAX: Final = 100_000
"""Most pairs that are reported; what others count is in the totals of their owners only."""
GONE_MAX: Final = 20_000
"""Pairs that have gone and are remembered; a reader that missed more reads all again."""

ENDED: Final = -1
"""Number of a pair that has gone: a poll may have found it before."""


class CountedPair(Protocol):
    """The counters of one pair: a channel and an exchange, a channel and a queue, or these two.

    Attributes:
        number: Number of the pair in reports of changes; 0 before the first, `ENDED` when it has
            gone.
        known_in: Generation of the poll that saw it first.
        changed_in: Generation of the poll that has seen its last change.
        reported_sum: Its `sum` at that poll.
    """

    number: int
    known_in: int
    changed_in: int
    reported_sum: int

    @property
    def sum(self) -> int:
        """Sum of its counters, which grows with each of them."""


class ReportedPairs:
    """The numbers of the pairs that readers know. The event loop owns it.

    Attributes:
        generation: Number of the latest poll.
        lost_until: Pairs that went in this generation, or before, may be forgotten.
    """

    def __init__(self) -> None:
        self.generation = self.lost_until = 0
        self._count = self._last_number = 0
        self._gone: deque[tuple[int, int]] = deque()

    def see(self, pair: CountedPair, since: int, found_in: int) -> bool:
        """Look at a pair; return whether a reader does not know its present counters.

        Args:
            pair: The pair.
            since: Generation of the poll whose result the reader knows; 0: none. It knows what
                the pair is, if its `known_in` is not greater.
            found_in: Generation of a change that is found now.
        """
        if pair.number == ENDED:
            return False
        if pair.reported_sum != pair.sum:
            if not pair.number:
                if self._count >= PAIRS_MAX:
                    return False
                self._count += 1
                self._last_number += 1
                pair.number = self._last_number
                pair.known_in = found_in
            pair.reported_sum = pair.sum
            pair.changed_in = found_in
        return pair.changed_in > since

    def end(self, pair: CountedPair) -> None:
        """Record that a pair has gone; a second call does nothing."""
        if pair.number > 0:
            self._count -= 1
            self._gone.append((self.generation, pair.number))
            if len(self._gone) > GONE_MAX:
                self.lost_until, _ = self._gone.popleft()
        pair.number = ENDED

    def gone_since(self, generation: int) -> list[int]:
        """Return the numbers of the pairs that have gone since a poll."""
        gone: list[int] = []
        for gone_in, number in reversed(self._gone):
            if gone_in < generation:
                break
            gone.append(number)
        return gone
