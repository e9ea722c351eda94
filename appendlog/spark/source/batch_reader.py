"""Batch reader for Spark: plans the tasks of a query, and reads in each task."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from appendlog.spark.source.batch_plan import BatchOptions, plan_batch
from appendlog.spark.source.partition_reader import PartitionReader
from appendlog.spark.source.read_options import OnDamage
from appendlog.spark.source.row_bounds import RowBounds
from appendlog.spark.source.row_layout import RowLayout


class LogBatchReader(DataSourceReader):
    """Reads logs for one query.

    It takes no filters: Spark refuses readers that take them, unless a setting allows it (see
    `pushing_reader`). Plain data: tasks get a pickled copy.

    Args:
        options: Options of the query.
        layout: Columns that batches must have.
    """

    def __init__(self, options: BatchOptions, layout: RowLayout) -> None:
        self._options = options
        self._wanted = RowBounds()
        self._read = PartitionReader.of(options.shared, layout)

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads, up to the present durable end."""
        return list(plan_batch(self._options, self._wanted))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition; Spark calls it in a task, on a copy of this object."""
        return self._read(partition)

    def narrow(self, wanted: RowBounds) -> None:
        """Skip rows outside of bounds, where that saves reading.

        Args:
            wanted: Bounds outside of which the query needs no rows.
        """
        if self._options.shared.on_damage is OnDamage.PERMISSIVE:
            # A row of damage has the offset at which the damage begins; a bound would change it.
            wanted = RowBounds(times_ns=wanted.times_ns, topics=wanted.topics)
        self._wanted = wanted
