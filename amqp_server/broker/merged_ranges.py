"""Puts ranges in order and joins those that touch, so that each part is handled once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the offsets of disjoint ranges as few ascending ranges. O(n log n).

    Args:
        ranges: Half-open ranges, not empty, in any order. An offset in two of them is an error of
            the caller, which stays visible: these two ranges are not joined.
    """
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
