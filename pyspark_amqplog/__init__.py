"""Spark's data source `amqplog`, under a name that Spark finds by itself.

    spark.read.format("amqplog").option("subscribe", "orders").load("/var/lib/amqp")

Spark imports every module named `pyspark_...` when a session meets its first data source in
Python, whichever that is. So nothing is imported here that Spark has not imported by then;
what reads logs comes with the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource", "enable"]

NAME: Final = "amqplog"
PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"


class DefaultSource(DataSource):
    """Reads the logs of durable queues and of programs that embed them; docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Return what is written as the format."""
        return NAME

    def schema(self) -> str:
        """Return the columns of rows, for a user who gave none."""
        from appendlog.spark.source.data_source import row_ddl

        return row_ddl(self.options)

    # Spark calls it with the name of its parameter.
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads once."""
        from appendlog.spark.source.data_source import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return what reads as a stream."""
        from appendlog.spark.source.data_source import stream_reader

        return stream_reader(self.options, schema)


def enable(spark: SparkSession) -> None:
    """Register the data source, and let readers be told the filters of their queries.

    Only needed where this package is not on the path of Spark's Python, or for the option
    `pushDownFilters`.

    Args:
        spark: The session; the setting is for all of its data sources in Python.
    """
    spark.conf.set(PUSH_DOWN, "true")
    spark.dataSource.register(DefaultSource)
