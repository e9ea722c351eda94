"""Sinks for `foreachBatch` that write each batch of a stream exactly once.

    from pyspark_amqplog.sink import parquet_sink

    rows.writeStream.foreachBatch(parquet_sink("/lake/orders")).option(...).start()

The stream may come from any source. docs/spark-sinks.md says what the sinks guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["delta_sink", "parquet_sink"]


def parquet_sink(
    uri: str,
    *,
    query: str | None = None,
    options: Mapping[str, str] | None = None,
    compare: bool = True,
) -> Callable[[DataFrame, int], None]:
    """Return a function that adds each batch to a folder of Parquet files for any reader.

    Args:
        uri: Folder to write to: a directory, or a place in an object store.
        query: Name of the query, instead of the id in its checkpoint. A query that begins again
            under the same name is refused.
        options: Options of the object store, as `--store-option` has them.
        compare: Whether a batch that comes again is read and compared with what the output has of
            it. False for rows that come out otherwise each time.

    Raises:
        OutputError: No store can be written under this URI.
    """
    from appendlog.spark.exporting.stores.opening import open_store
    from appendlog.spark.exporting.stream_sink import ParquetSink

    return ParquetSink(open_store(uri, options), query, compare=compare)


def delta_sink(
    uri: str, *, query: str | None = None, compare: bool = True
) -> Callable[[DataFrame, int], None]:
    """Return a function that adds each batch to a Delta table; the first batch creates the table.

    Args:
        uri: Directory of the table.
        query: As for `parquet_sink`.
        compare: As for `parquet_sink`.

    Raises:
        OutputError: The URI names no directory.
        LakeMissingError: The library of Delta is not installed: `pip install amqp-server[lake]`.
    """
    from appendlog.spark.exporting.stores.opening import open_store
    from appendlog.spark.exporting.tables.delta_stream import DeltaSink

    return DeltaSink(open_store(uri), query, compare=compare)
