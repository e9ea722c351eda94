"""Offsets of a segment that compaction has removed: the complement of the live ones."""

from collections.abc import Sequence
from itertools import pairwise

Range = tuple[int, int]


def removed_ranges(
    live: Sequence[Range], start: int, end: int, count_max: int
) -> tuple[list[Range], bool]:
    """Return the parts of `[start, end)` that are not live, and whether ranges were joined.

    Args:
        live: Ranges of offsets, ascending and disjoint.
        start: First offset, inclusive.
        end: End offset, exclusive.
        count_max: Maximum number of ranges. If there are more, ranges are joined over the shortest
            stretches of live offsets.
    """
    removed: list[Range] = []
    for run_start, run_end in (*live, (end, end)):
        if start < run_start:
            removed.append((start, run_start))
        start = run_end
    if len(removed) <= count_max:
        return removed, False
    between = sorted(range(1, len(removed)), key=lambda at: removed[at - 1][1] - removed[at][0])
    cuts = [0, *sorted(between[: count_max - 1]), len(removed)]
    return [(removed[at][0], removed[stop - 1][1]) for at, stop in pairwise(cuts)], True
