"""A column of headers as JSON, for one batch after the other."""

from collections.abc import Iterable

import pyarrow as pa

from appendlog.layout.columns import ReadableBuffer
from appendlog.spark.decoding.found_fields import FoundFields
from appendlog.spark.decoding.headers_columns import JsonColumn


class JsonBuffers:
    """Makes one column of headers as JSON. Each different table of a batch is decoded once."""

    def column(
        self,
        batch: FoundFields,
        slot: int,
        buffers: Iterable[tuple[ReadableBuffer, int]],
        rows: int,
    ) -> tuple[pa.Array, int]:
        """Return the column, and how many of its tables do not add up; see `HeadersBuffers`."""
        column = JsonColumn()
        known: dict[bytes | None, int] = {}
        indexes: list[int] = []
        row = 0
        for data, count in buffers:
            for _ in range(count):
                table = batch.field(data, slot, row)
                indexes.append(known.setdefault(table, len(known)))
                row += 1
        unreadable = {at for at, table in enumerate(known) if not column.add(table)}
        array = column.array()
        malformed = sum(at in unreadable for at in indexes) if unreadable else 0
        if len(known) < rows:
            array = array.take(pa.array(indexes, pa.int32()))
        return array, malformed
