"""Ranges of offsets `[start, end)`; lists of ranges are ordered, and ranges do not touch."""

from collections.abc import Iterable, Sequence

Range = tuple[int, int]


def join_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return the offsets that are in at least one range; drops empty ranges."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def first_overlap(ranges: Iterable[Range]) -> Range | None:
    """Return the lowest offsets that are in two of the ranges; None if there are none."""
    reached = None
    for start, end in sorted(ranges):
        if reached is not None and start < min(reached, end):
            return (start, min(reached, end))
        reached = end if reached is None else max(reached, end)
    return None


def offsets_in(ranges: Iterable[Range]) -> int:
    """Return the number of offsets in ranges that do not overlap."""
    return sum(end - start for start, end in ranges)


def subtract_ranges(ranges: Sequence[Range], covered: Sequence[Range]) -> list[Range]:
    """Return the offsets that are in one of `ranges` and in none of `covered`.

    Args:
        ranges: Ordered, disjoint ranges.
        covered: Ordered, disjoint ranges.
    """
    left: list[Range] = []
    at = 0
    for start, end in ranges:
        # A covered range that ends at or below this start is below all later ranges too.
        while at < len(covered) and covered[at][1] <= start:
            at += 1
        following = at
        while following < len(covered) and covered[following][0] < end:
            if start < covered[following][0]:
                left.append((start, covered[following][0]))
            start = max(start, covered[following][1])
            following += 1
        if start < end:
            left.append((start, end))
    return left
