"""Writes Parquet: a row group for each group of rows.

The writer is most of an export's cost, so each column only gets what it needs:

- a dictionary only if values repeat: otherwise the writer fills it, drops it and writes again;
- differences for numbers that mostly grow;
- statistics only if readers can skip row groups by them: comparing bodies, headers and identifiers
  byte by byte costs more than it can save;
- zstd at level 1, which makes half the size of snappy at about the same cost.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.schema.columns import COLUMNS, KNOWN_ROWS

_REPETITIVE: Final = [column.name for column in COLUMNS if column.is_repetitive]
# Names of headers repeat. Their values often do not; zstd finds those that do.
_DICTIONARIES: Final = [*_REPETITIVE, "headers.key_value.key"]
_GROWING: Final = ("offset", "timestamp", "message_timestamp", "message_timestamp_raw")
_WRITE_BATCH_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """Files of Apache Parquet."""

    extension: str = "parquet"

    def open(self, file: BinaryIO, schema: pa.Schema) -> "ParquetFile":
        """Begin a file; see `FileFormat`."""
        return ParquetFile(file, schema)


class ParquetFile:
    """One Parquet file that is being written; see `FileWriter`."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        # Columns of partitions, which have one value in a file.
        other = [name for name in schema.names if name not in KNOWN_ROWS.names]
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[*_DICTIONARIES, *other],
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=[*_REPETITIVE, *_GROWING, *other],
            write_batch_size=_WRITE_BATCH_ROWS,
        )

    def write(self, rows: pa.Table) -> None:
        """Append a row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the footer, with the metadata as its key-value pairs."""
        self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()

    def discard(self) -> None:
        """Release the writer; it cannot be dropped without writing a footer."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
