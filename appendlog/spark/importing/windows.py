"""Reads the rows of a table in the order of their offsets, whatever the order of its files.

Other programs may have compacted or clustered the table. So this reads one window of offsets after
another and sorts each in memory. The size of the last window's rows decides how wide the next is.
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
"""Returns the rows with offsets in `[start, end)`, in any order."""


def rows_in_order(scan: Scan, ranges: list[Range]) -> Iterator[pa.Table]:
    """Yield rows, sorted by `offset`.

    Args:
        scan: Reads a window; called once for each offset of the ranges.
        ranges: Ordered, disjoint ranges.
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
