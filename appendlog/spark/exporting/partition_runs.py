"""Divides sorted rows into runs of one partition, as tables want them: a file for each."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Partition = dict[str, str | None]
"""Text of each partition column, as the Delta protocol has it; None for null."""


def partition_runs(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[tuple[Partition, Iterator[pa.RecordBatch]]]:
    """Yield partitions and their rows; read the rows of one before the next.

    Args:
        batches: Rows in the order of `columns`; batches without rows are left out.
        columns: Columns of the partitions; without any, all rows are one run.
    """
    pieces = (piece for batch in batches if batch.num_rows for piece in _pieces(batch, columns))
    for texts, group in groupby(pieces, itemgetter(0)):
        yield dict(zip(columns, texts, strict=True)), map(itemgetter(1), group)


def _pieces(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    values = [batch.column(name) for name in columns]
    starts = [0, *sorted({at for each in values for at in _changes(each)}), batch.num_rows]
    for start, end in pairwise(starts):
        texts = tuple(_text(each[start].as_py()) for each in values)
        yield texts, batch.slice(start, end - start)


def _changes(values: pa.Array) -> list[int]:
    """Return the places at which a value differs from the one before it."""
    before, after = values[:-1], values[1:]
    differs = pc.fill_null(pc.not_equal(before, after), pa.scalar(False))
    is_other = pc.or_(differs, pc.xor(before.is_null(), after.is_null()))
    return [at + 1 for at in pc.indices_nonzero(is_other).to_pylist()]


def _text(value: Any) -> str | None:  # noqa: ANN401 - of any type that partitions have
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
