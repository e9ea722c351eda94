"""Which offsets of a segment compaction has removed: the complement of what is live."""

from collections.abc import Sequence
from itertools import pairwise

Range = tuple[int, int]


def removed_ranges(
    live: Sequence[Range], start: int, end: int, count_max: int
) -> tuple[list[Range], bool]:
    """Return what of `[start, end)` is not live, and whether ranges were joined.

    Args:
        live: Ranges of offsets, ascending and disjoint.
        start: Inclusive.
        end: Exclusive.
        count_max: More ranges are joined, over the shortest stretches of live offsets, until they
            are no more than this.
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
