"""Columns of rows: names, Spark types, Arrow types.

Names and meanings are Kafka's where Kafka has them (key, value, topic, partition, offset,
timestamp, timestampType, headers), so that Kafka jobs need no change. Columns are only ever added;
`SCHEMA_VERSION` is in every file.

The Arrow types are those that Spark makes of the Spark types (string and not large_string,
microseconds in UTC, no dictionaries), so that the same batches can feed a Spark data source. All
columns are nullable: an absent value is null, never empty.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import pyarrow as pa

SCHEMA_VERSION: Final = 3
"""Version 2 added the column `envelope`, version 3 `message_timestamp_raw`."""
PARTITION: Final = 0
"""The only partition of a queue: a queue has one log."""
TIMESTAMP_TYPE: Final = 1
"""Kafka's LogAppendTime: `timestamp` is when the broker wrote the message."""


class Column(NamedTuple):
    """A column of rows.

    Attributes:
        name: Name in files and in Spark.
        spark_type: Type in Spark's DDL.
        arrow_type: Type that Spark makes of `spark_type`.
        is_repetitive: Whether values repeat, so that a dictionary in Parquet saves space. For a
            map its parts decide, see `parquet_format`.
    """

    name: str
    spark_type: str
    arrow_type: pa.DataType
    is_repetitive: bool


_STRING: Final = pa.string()
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

COLUMNS: Final = (
    Column("key", "STRING", _STRING, True),
    Column("value", "BINARY", pa.binary(), False),
    Column("topic", "STRING", _STRING, True),
    Column("partition", "INT", pa.int32(), True),
    Column("offset", "BIGINT", pa.int64(), False),
    Column("timestamp", "TIMESTAMP", _TIMESTAMP, False),
    Column("timestampType", "INT", pa.int32(), True),
    Column("exchange", "STRING", _STRING, True),
    Column("vhost", "STRING", _STRING, True),
    Column("content_type", "STRING", _STRING, True),
    Column("content_encoding", "STRING", _STRING, True),
    # AMQP has octets here, 0 to 255: TINYINT would turn a priority of 200 into -56.
    Column("delivery_mode", "SMALLINT", pa.int16(), True),
    Column("priority", "SMALLINT", pa.int16(), True),
    Column("correlation_id", "STRING", _STRING, False),
    Column("reply_to", "STRING", _STRING, True),
    Column("expiration", "STRING", _STRING, True),
    Column("message_id", "STRING", _STRING, False),
    Column("message_timestamp", "TIMESTAMP", _TIMESTAMP, False),
    Column("type", "STRING", _STRING, True),
    Column("user_id", "STRING", _STRING, True),
    Column("app_id", "STRING", _STRING, True),
    Column("cluster_id", "STRING", _STRING, True),
    Column("headers", "MAP<STRING,STRING>", pa.map_(_STRING, _STRING), False),
    Column("timestamp_ns", "BIGINT", pa.int64(), False),
    Column("envelope", "BINARY", pa.binary(), False),
    # What the publisher sent: many send milliseconds where AMQP has seconds.
    Column("message_timestamp_raw", "BIGINT", pa.int64(), False),
)
"""All columns. Users ask by name for those that `ROWS` does not have."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """Columns of some rows, in order; picklable.

    Attributes:
        columns: At least one column; names differ.
    """

    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """Return the schema of record batches; equal to the one that Spark makes of `ddl`."""
        return pa.schema([pa.field(c.name, c.arrow_type) for c in self.columns])

    @property
    def ddl(self) -> str:
        """Return the columns as Spark's DDL."""
        return ", ".join(f"`{column.name}` {column.spark_type}" for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    def only(self, names: Collection[str]) -> Self:
        """Return a schema with the columns that are named in `names`, in this order."""
        return type(self)(tuple(column for column in self.columns if column.name in names))

    def without(self, names: Collection[str]) -> Self:
        """Return a schema without the columns that are named in `names`."""
        return type(self)(tuple(column for column in self.columns if column.name not in names))


KNOWN_ROWS: Final = RowSchema(COLUMNS)
"""All columns."""
ROWS: Final = KNOWN_ROWS.without({"timestamp_ns", "envelope", "message_timestamp_raw"})
"""Columns of a row, unless the user asks for others."""
EXPORT_ROWS: Final = KNOWN_ROWS.without({"timestamp_ns"})
"""Columns of an export: `envelope` and `value` together are the message, byte for byte."""
