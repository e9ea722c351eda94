"""Partition of a query: what one task of Spark reads."""

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from appendlog.spark.planning.packing import Partition
from appendlog.spark.planning.settlement import OffsetChoice


class LogPartition(InputPartition):
    """Pieces of logs that one task reads; picklable, and printed without secrets.

    Attributes:
        value: Pieces, in the order in which they are read.
        choices: Wanted offsets of each piece, None for all of them; empty if all offsets of all
            pieces are wanted.
    """

    def __init__(self, value: Partition, choices: Sequence[OffsetChoice | None] = ()) -> None:
        super().__init__(value)
        self.value = value
        self.choices = tuple(choices)
