"""Reading through the data source without a JVM: what Spark would call, in its order."""

import pickle
import re
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from appendlog.spark.schema.forms import KAFKA_HEADERS
from appendlog.spark.source.batch_reader import LogBatchReader
from pyspark_amqplog import DefaultSource
from tests.spark.plain_reader import Row, table_rows

TYPES: dict[str, DataType] = {
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "SMALLINT": ShortType(),
    "TIMESTAMP": TimestampType(),
    "MAP<STRING,STRING>": MapType(StringType(), StringType()),
    KAFKA_HEADERS.spark_type: ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


def struct_of(ddl: str) -> StructType:
    """Return what Spark makes of DDL; only the JVM could parse all of it."""
    columns = re.findall(r"`((?:[^`]|``)+)` (ARRAY<.*>|[A-Z<>,]+?)(?:, |\Z)", ddl)
    return StructType([StructField(name, TYPES[kind]) for name, kind in columns])


def reader_of(
    storage_path: Path, schema: StructType | None = None, /, **options: str
) -> LogBatchReader:
    """Return a reader as Spark gets it, with upper case lost in the names of the options."""
    given = {"path": str(storage_path), **options}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "orders"
    source = DefaultSource({name.lower(): value for name, value in given.items()})
    source = pickle.loads(pickle.dumps(source))
    wanted = struct_of(source.schema()) if schema is None else schema
    # By keyword: that is how Spark calls it.
    return cast("LogBatchReader", source.reader(schema=wanted))


def partitions_of(reader: LogBatchReader) -> list[InputPartition]:
    """Return what Spark makes of a reader's partitions."""
    partitions = reader.partitions()
    assert type(partitions) is list
    assert all(isinstance(each, InputPartition) for each in partitions)
    return [pickle.loads(pickle.dumps(each)) for each in partitions or [InputPartition(None)]]


def batches_of(reader: LogBatchReader, schema: pa.Schema | None = None) -> list[pa.RecordBatch]:
    """Return all batches, each partition read by a copy of the reader, as in a task."""
    partitions = partitions_of(reader)
    task = pickle.dumps(reader)
    batches: list[pa.RecordBatch] = []
    for partition in partitions:
        rows = pickle.loads(task).read(partition)
        assert iter(rows) is rows
        batches += rows
    for batch in batches:
        batch.validate(full=True)
        assert schema is None or batch.schema.equals(schema)
    return batches


def read_rows(storage_path: Path, schema: StructType | None = None, /, **options: str) -> list[Row]:
    """Return the rows of a query, timestamps as microseconds, in the order of its partitions."""
    reader = reader_of(storage_path, schema, **options)
    wanted = None if schema is None else to_arrow_schema(schema, timezone="UTC")
    return [row for batch in batches_of(reader, wanted) for row in table_rows(batch)]


def read_offsets(
    storage_path: Path, schema: StructType | None = None, /, **options: str
) -> list[int]:
    """Return the offsets of the rows of a query."""
    return [row["offset"] for row in read_rows(storage_path, schema, **options)]
