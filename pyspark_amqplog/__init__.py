"""Data source `amqplog` of Spark, in a module whose name Spark finds by itself.

    spark.read.format("amqplog").option("subscribe", "orders").load("/var/lib/amqp")

Spark imports every module named `pyspark_...` when a session meets its first data source in
Python, whichever that is. So this module imports only what Spark has imported by then; the first
use of the data source imports the code that reads logs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource", "enable"]

NAME: Final = "amqplog"
PYTHON: Final = "PYSPARK_PYTHON"
PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"


class DefaultSource(DataSource):
    """Reads logs of durable queues and of programs that embed logs.

    docs/spark-reading.md lists the options.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name that users give to `format(...)`."""
        return NAME

    def schema(self) -> str:
        """Return the columns of rows as DDL, for a user who gave no schema."""
        from appendlog.spark.source.data_source import row_ddl

        return row_ddl(self.options)

    # Spark passes the argument by the name of the parameter.
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        from appendlog.spark.source.data_source import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        from appendlog.spark.source.data_source import stream_reader

        return stream_reader(self.options, schema)


def enable(spark: SparkSession) -> None:
    """Register the data source, and have Spark pass the filters of queries to readers.

    Spark finds the data source without it only if the Python of its workers is this one and has the
    package in a folder of its own: not if this Python was called by its path (workers are then
    `python3` of PATH), nor after an editable install, nor from an archive. With a local master and
    without a choice of Python, the workers of what is registered are this Python from now on.

    Args:
        spark: Session to change; the setting affects all of its data sources in Python.
    """
    context = spark.sparkContext
    is_chosen = PYTHON in os.environ or context.getConf().contains("spark.pyspark.python")
    if (context.master or "").startswith("local") and not is_chosen:
        context.pythonExec = sys.executable
    spark.conf.set(PUSH_DOWN, "true")
    spark.dataSource.register(DefaultSource)
