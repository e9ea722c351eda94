"""One small number for each of a queue's messages, in an array: octets, not objects."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORGET_MIN = 4096
"""Numbers below the floor that are worth moving the others down."""


class OffsetArray:
    """Numbers by offset, from a floor that only grows.

    Args:
        kind: Type code of `array`: `B` for octets, `I` for 32 bits.
        start: Offset of the first number.
    """

    def __init__(self, kind: str, start: int) -> None:
        self._numbers = array(kind)
        self._start = start

    @property
    def end(self) -> int:
        """The offset that the next number will belong to."""
        return self._start + len(self._numbers)

    def extend(self, numbers: Iterable[int]) -> None:
        """Add the numbers of the next offsets."""
        self._numbers.extend(numbers)

    def fill(self, end: int) -> None:
        """Add zeros up to the offset `end`: offsets that hold no message."""
        if end > self.end:
            self._numbers.frombytes(bytes((end - self.end) * self._numbers.itemsize))

    def put_before(self, older: OffsetArray) -> None:
        """Take over the numbers below the first; the other is not used afterwards.

        Between the two are zeros; if this one has forgotten some already, it has no use for more.
        """
        older.fill(self._start)
        assert older.end == self._start, "the numbers overlap"
        older._numbers.extend(self._numbers)
        self._numbers, self._start = older._numbers, older._start

    def numbers(self, start: int, end: int) -> array[int]:
        """Return the numbers of `[start, end)`, none of them forgotten."""
        assert self._start <= start <= end <= self.end, "no number is known of this offset"
        return self._numbers[start - self._start : end - self._start]

    def forget(self, floor: int) -> None:
        """Let go of what lies below `floor`, when it is worth it."""
        below = min(floor, self.end) - self._start
        if below >= _FORGET_MIN and below * 2 >= len(self._numbers):
            del self._numbers[:below]
            self._start += below
