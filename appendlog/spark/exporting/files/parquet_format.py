"""Parquet, as exports write it: a row group for each group of rows, nothing that costs for nothing.

The writer is most of an export's cost, so what it does for each column is chosen:

- a dictionary only where values repeat: elsewhere it is filled, given up and written again;
- numbers that mostly grow as differences;
- statistics only where a reader can skip row groups by them: comparing bodies, headers and
  identifiers byte by byte costs more than it could ever spare;
- zstd at level 1, which halves what snappy leaves and costs about the same.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.schema.columns import COLUMNS

_REPETITIVE: Final = [column.name for column in COLUMNS if column.is_repetitive]
# Names of headers repeat; what they are set to often does not, and zstd finds it when it does.
_DICTIONARIES: Final = [*_REPETITIVE, "headers.key_value.key"]
_GROWING: Final = ("offset", "timestamp", "message_timestamp")
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
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_DICTIONARIES,
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=[*_REPETITIVE, *_GROWING],
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
        """Release the writer; it cannot be left open, so it writes a footer."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
