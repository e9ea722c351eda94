"""What one task of Spark's reads."""

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from appendlog.spark.planning.packing import Partition
from appendlog.spark.planning.settlement import OffsetChoice


class LogPartition(InputPartition):
    """Pieces of logs, one after the other; picklable, and printed in no plan with secrets.

    Attributes:
        value: The pieces.
        choices: Of each piece, which of its offsets are wanted, None for all of them; empty when
            all of all are.
    """

    def __init__(self, value: Partition, choices: Sequence[OffsetChoice | None] = ()) -> None:
        super().__init__(value)
        self.value = value
        self.choices = tuple(choices)
