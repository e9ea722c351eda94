"""Publisher confirms of a channel that the broker has sent."""

from __future__ import annotations


class Confirms:
    """Counts publishes of a channel in confirm mode, and what became of each.

    Publishes have the numbers 1, 2, and so on. The broker may settle them in any order; the floor
    moves when everything up to it is settled.

    Attributes:
        published: Number of the last publish.
        floor: Everything up to this number is settled.
    """

    def __init__(self) -> None:
        self.published = 0
        self.floor = 0
        self.nacked: set[int] = set()
        """Publishes above the floor at the last `take_nacked` that the broker has refused."""
        self._ahead: set[int] = set()

    @property
    def unsettled(self) -> int:
        """Publishes above the floor."""
        return self.published - self.floor

    def settle(self, first: int, last: int, *, is_nack: bool) -> bool:
        """Note that publishes are settled; return whether the broker may say that.

        Args:
            first: Number of the first one; 0: all that are left up to `last`.
            last: Number of the last one; 0 with `first` 0: all.
            is_nack: Whether the broker has refused them.
        """
        if last == 0 and first == 0:
            last = self.published
        if last > self.published:
            return False
        start = self.floor + 1 if first == 0 else max(first, self.floor + 1)
        if is_nack:
            self.nacked.update(
                number for number in range(start, last + 1) if number not in self._ahead
            )
        if start > self.floor + 1:
            self._ahead.update(range(start, last + 1))
            return True
        self.floor = max(self.floor, last)
        ahead = self._ahead
        if ahead:
            if first == 0:
                self._ahead = ahead = {number for number in ahead if number > self.floor}
            while self.floor + 1 in ahead:
                self.floor += 1
                ahead.remove(self.floor)
            if start <= last:
                ahead.difference_update(range(start, last + 1))
        return True
