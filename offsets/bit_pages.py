"""Pages of 1,024 offsets, each a Python integer used as a bitmap."""

from collections.abc import Iterator
from typing import Final

PAGE_SHIFT: Final = 10
PAGE_OFFSETS: Final = 1 << PAGE_SHIFT
PAGE_LOW: Final = PAGE_OFFSETS - 1
"""Mask for the place of an offset within its page."""
PAGE_FULL: Final = (1 << PAGE_OFFSETS) - 1
"""Bits of a page in which every offset is settled."""


def trailing_ones(bits: int) -> int:
    """Return the number of ones at the low end of `bits`."""
    return (~bits & (bits + 1)).bit_length() - 1


def bit_runs(bits: int, offset: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of ones in `bits`, half-open; its lowest bit stands for `offset`."""
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = trailing_ones(bits)
        bits >>= ones
        offset += zeros
        yield offset, offset + ones
        offset += ones
