"""Spark's view of a query: what its tasks are, and how each of them reads."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from appendlog.spark.source.batch_plan import BatchOptions, plan_batch
from appendlog.spark.source.partition_reader import PartitionReader
from appendlog.spark.source.read_options import OnDamage
from appendlog.spark.source.row_bounds import RowBounds
from appendlog.spark.source.row_layout import RowLayout


class LogBatchReader(DataSourceReader):
    """Reads logs once.

    It takes no filters: Spark refuses readers that do, unless that is switched on (see
    `pushing_reader`). Plain data: tasks get a pickled copy.

    Args:
        options: What to read.
        layout: What batches must be.
    """

    def __init__(self, options: BatchOptions, layout: RowLayout) -> None:
        self._options = options
        self._wanted = RowBounds()
        self._read = PartitionReader.of(options.shared, layout)

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads, up to the durable end as of now."""
        return list(plan_batch(self._options, self._wanted))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition; called in a task, on a copy of this object."""
        return self._read(partition)

    def narrow(self, wanted: RowBounds) -> None:
        """Read no rows beyond bounds, as far as that spares reading.

        Args:
            wanted: Rows beyond are of no use.
        """
        if self._options.shared.on_damage is OnDamage.PERMISSIVE:
            # The offset of a row of damage is that of its beginning, which a bound would move.
            wanted = RowBounds(times_ns=wanted.times_ns, topics=wanted.topics)
        self._wanted = wanted
