"""Merges siblings: files of one range, each in the order of offsets, become rows in one order."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa


def in_offset_order(files: Sequence[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Yield the rows of several files in the order of their offsets.

    Memory: one table of each file.

    Args:
        files: Rows of each file: tables with the same columns, `offset` among them, not empty and
            in ascending order. No offset is in two files.
    """
    heads: dict[int, pa.Table] = {}
    for number, tables in enumerate(files):
        _advance(heads, number, tables)
    while heads:
        # The file whose head ends first may have more rows before what the others have behind it.
        end = min(head.column("offset")[-1].as_py() for head in heads.values())
        ready = []
        for number, head in list(heads.items()):
            count = int(np.searchsorted(head.column("offset").to_numpy(), end, side="right"))
            if count:
                ready.append(head.slice(0, count))
                heads[number] = head.slice(count)
            if count == head.num_rows:
                _advance(heads, number, files[number])
        yield ready[0] if len(ready) == 1 else pa.concat_tables(ready).sort_by("offset")


def _advance(heads: dict[int, pa.Table], number: int, tables: Iterator[pa.Table]) -> None:
    heads.pop(number, None)
    following = next(tables, None)
    if following is not None:
        heads[number] = following
