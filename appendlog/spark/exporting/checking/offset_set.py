"""Set of offsets that were seen, in any order; a bit for each where they are not dense."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from appendlog.spark.planning.ranges import Range

BLOCK_OFFSETS: Final = 1 << 16
_SHIFT: Final = 16


class OffsetSet:
    """Offsets, with a count of those that were added twice.

    A block of 65,536 offsets takes 8 KiB until all of them are there, and nothing afterwards.

    Attributes:
        count: Number of different offsets.
        doubled: Number of additions of an offset that was there already.
        first_double: Lowest offset that was added twice; None if there is none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.doubled = 0
        self.first_double: int | None = None
        self._blocks: dict[int, npt.NDArray[np.uint8] | None] = {}

    def add(self, offsets: npt.NDArray[np.int64]) -> None:
        """Add offsets, in any order, at least 0."""
        numbers = offsets >> _SHIFT
        for number in np.unique(numbers).tolist():
            self._add_to(number, offsets[numbers == number] & (BLOCK_OFFSETS - 1))

    def count_in(self, start: int, end: int) -> int:
        """Return the number of offsets of `[start, end)` in the set."""
        return sum(
            int(self._bits(number)[low:high].sum()) for number, low, high in _blocks(start, end)
        )

    def missing_in(self, start: int, end: int) -> Iterator[Range]:
        """Yield the offsets of `[start, end)` that the set lacks, as ranges, in order."""
        since: int | None = None
        for number, low, high in _blocks(start, end):
            bits = self._bits(number)[low:high]
            base = number * BLOCK_OFFSETS + low
            edges = np.flatnonzero(np.diff(bits, prepend=since is None))
            for edge in edges.tolist():
                if since is None:
                    since = base + edge
                else:
                    yield since, base + edge
                    since = None
        if since is not None:
            yield since, end

    def last(self) -> int | None:
        """Return the highest offset; None if the set is empty."""
        if not self._blocks:
            return None
        number = max(self._blocks)
        return number * BLOCK_OFFSETS + int(np.flatnonzero(self._bits(number))[-1])

    def _add_to(self, number: int, places: npt.NDArray[np.int64]) -> None:
        before = self._bits(number)
        counts = np.bincount(places, minlength=BLOCK_OFFSETS)
        after = before | (counts > 0)
        new = int(after.sum()) - int(before.sum())
        self.count += new
        if new < len(places):
            self.doubled += len(places) - new
            first = number * BLOCK_OFFSETS + int(np.flatnonzero(counts + before > 1)[0])
            known = self.first_double
            self.first_double = first if known is None else min(first, known)
        self._blocks[number] = None if after.all() else np.packbits(after)

    def _bits(self, number: int) -> npt.NDArray[np.bool_]:
        if number not in self._blocks:
            return np.zeros(BLOCK_OFFSETS, np.bool_)
        packed = self._blocks[number]
        if packed is None:
            return np.ones(BLOCK_OFFSETS, np.bool_)
        return np.unpackbits(packed).astype(np.bool_)


def _blocks(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, first place and end of the places of each block of a range."""
    at = start
    while at < end:
        number = at >> _SHIFT
        behind = min(end, (number + 1) * BLOCK_OFFSETS)
        yield number, at - number * BLOCK_OFFSETS, behind - number * BLOCK_OFFSETS
        at = behind
