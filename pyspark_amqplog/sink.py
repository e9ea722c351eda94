"""Sinks for `foreachBatch` that have each batch of a stream exactly once.

    from pyspark_amqplog.sink import parquet_sink

    rows.writeStream.foreachBatch(parquet_sink("/lake/orders")).option(...).start()

The stream may be of any source; docs/spark.md tells what is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["delta_sink", "parquet_sink"]


def parquet_sink(
    uri: str, *, query: str | None = None, options: Mapping[str, str] | None = None
) -> Callable[[DataFrame, int], None]:
    """Return what adds each batch to a folder of Parquet files, for any reader to read.

    Args:
        uri: The folder: a directory, or a place in an object store.
        query: Stands for the query in place of the id in its checkpoint. A query that begins
            anew under the same name adds nothing until its batches have higher numbers.
        options: Of the object store.

    Raises:
        OutputError: No store can be written under this URI.
    """
    from appendlog.spark.exporting.stores.opening import open_store
    from appendlog.spark.exporting.stream_sink import ParquetSink

    return ParquetSink(open_store(uri, options), query)


def delta_sink(uri: str, *, query: str | None = None) -> Callable[[DataFrame, int], None]:
    """Return what adds each batch to a Delta table, which the first one creates.

    Args:
        uri: The table: a directory.
        query: As for `parquet_sink`.

    Raises:
        OutputError: It is not a directory.
        LakeMissingError: The library of Delta is not installed: `pip install amqp-server[lake]`.
    """
    from appendlog.spark.exporting.stores.opening import open_store
    from appendlog.spark.exporting.tables.delta_stream import DeltaSink

    return DeltaSink(open_store(uri), query)
