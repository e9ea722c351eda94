"""One small number for each message of a queue, in an array without objects."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORGET_MIN = 4096
"""Forgotten numbers from which on it pays to move the others."""


class OffsetArray:
    """Numbers by offset, from a floor that never falls.

    Args:
        kind: Type code of `array`: `B` for octets, `I` for 32 bits.
        start: Offset of the first number.
    """

    def __init__(self, kind: str, start: int) -> None:
        self._numbers = array(kind)
        self._start = start

    @property
    def start(self) -> int:
        """Offset of the first number that is not forgotten."""
        return self._start

    @property
    def end(self) -> int:
        """Offset that the next number belongs to."""
        return self._start + len(self._numbers)

    def extend(self, numbers: Iterable[int]) -> None:
        """Append the numbers of the next offsets."""
        self._numbers.extend(numbers)

    def fill(self, end: int) -> None:
        """Append zeros up to the offset `end`, for offsets without a message."""
        if end > self.end:
            self._numbers.frombytes(bytes((end - self.end) * self._numbers.itemsize))

    def put_before(self, older: OffsetArray) -> None:
        """Insert older numbers before the first one; the caller must not use `older` again.

        Zeros fill a gap between the two, also where this array has forgotten numbers, as nothing
        needs these any more.
        """
        older.fill(self._start)
        assert older.end == self._start, "the numbers overlap"
        older._numbers.extend(self._numbers)
        self._numbers, self._start = older._numbers, older._start

    def put(self, start: int, numbers: Iterable[int]) -> None:
        """Replace the numbers from the offset `start` on; forgotten ones are left out."""
        for at, number in enumerate(numbers, start - self._start):
            if 0 <= at < len(self._numbers):
                self._numbers[at] = number

    def numbers(self, start: int, end: int) -> array[int]:
        """Return the numbers of `[start, end)`, none of which may be forgotten."""
        assert self._start <= start <= end <= self.end, "the array has no number of this offset"
        return self._numbers[start - self._start : end - self._start]

    def forget(self, floor: int) -> None:
        """Discard the numbers below `floor`, if there are enough of them."""
        below = min(floor, self.end) - self._start
        if below >= _FORGET_MIN and below * 2 >= len(self._numbers):
            del self._numbers[:below]
            self._start += below
