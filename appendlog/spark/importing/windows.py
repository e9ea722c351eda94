"""Rows of a table in the order of their offsets, whatever the order of its files is.

A table may have been compacted or clustered in another way since; so it is asked for one window
of offsets after the other, and each is sorted in memory. How wide a window is follows from how
large the rows of the one before were.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from appendlog.spark.planning.ranges import Range

WINDOW_BYTES: Final = 16 << 20
WINDOW_OFFSETS_MIN: Final = 16
WINDOW_OFFSETS_MAX: Final = 1 << 20
_FIRST_OFFSETS: Final = 1024
_GROWTH_MAX: Final = 8

Scan = Callable[[int, int], pa.Table]
"""Returns the rows of a range of offsets, in any order."""


def rows_in_order(scan: Scan, ranges: list[Range]) -> Iterator[pa.Table]:
    """Yield rows, sorted by `offset`.

    Args:
        scan: Asked for each offset of the ranges once.
        ranges: In order and disjoint.
    """
    width = _FIRST_OFFSETS
    for start, end in ranges:
        at = start
        while at < end:
            behind = min(at + width, end)
            rows = scan(at, behind)
            if rows.num_rows:
                yield rows.sort_by("offset")
            share = WINDOW_BYTES / max(rows.nbytes, 1)
            wished = int((behind - at) * min(share, _GROWTH_MAX))
            width = min(max(wished, WINDOW_OFFSETS_MIN), WINDOW_OFFSETS_MAX)
            at = behind
