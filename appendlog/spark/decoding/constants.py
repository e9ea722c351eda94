"""Columns with the same value in each row of a log, made once."""

from collections.abc import Mapping

import pyarrow as pa

from appendlog.spark.schema.columns import PARTITION, TIMESTAMP_TYPE
from metadata.name_texts import replaced_text


class ConstantColumns:
    """Makes the columns of a log that have the same value in each row.

    Args:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        types: Types of all columns that are wanted, by name; also of the other columns.
    """

    def __init__(self, vhost: str, queue: str, types: Mapping[str, pa.DataType]) -> None:
        values: dict[str, str | int] = {
            "topic": replaced_text(queue),
            "vhost": replaced_text(vhost),
            "partition": PARTITION,
            "timestampType": TIMESTAMP_TYPE,
        }
        self._values = {
            name: pa.scalar(value, types[name]) for name, value in values.items() if name in types
        }
        self._columns: dict[str, pa.Array] = {}
        self._rows = -1

    def columns(self, rows: int) -> dict[str, pa.Array]:
        """Return the columns for a number of rows; shares memory with shorter ones."""
        if rows > self._rows:
            self._columns = {name: pa.repeat(value, rows) for name, value in self._values.items()}
            self._rows = rows
        return {name: column.slice(0, rows) for name, column in self._columns.items()}
