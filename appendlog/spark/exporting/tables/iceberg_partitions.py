"""Partitions an Iceberg table by day or hour of the append time, hidden from queries."""

from typing import TYPE_CHECKING, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.tables.table_names import lake_module
from appendlog.spark.exporting.time_partitions import PartitionBy

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

_FIELDS: Final = {PartitionBy.DAY: "timestamp_day", PartitionBy.HOUR: "timestamp_hour"}


def partition_new(creation: "Transaction", partition_by: PartitionBy | None) -> None:
    """Partition a table that is about to be created.

    Args:
        creation: Transaction that creates the table.
        partition_by: Unit of the partitions; None for no partitions.
    """
    if partition_by is None:
        return
    transforms = lake_module("pyiceberg.transforms")
    is_day = partition_by is PartitionBy.DAY
    transform = transforms.DayTransform() if is_day else transforms.HourTransform()
    with creation.update_spec() as spec:
        spec.add_field("timestamp", transform, _FIELDS[partition_by])


def check_partitions(table: "Table", url: str, partition_by: PartitionBy | None) -> None:
    """Check that a table has the partitions by time of its files; other partitions are allowed.

    Raises:
        OutputError: The table has other partitions by time.
    """
    there = {field.name for field in table.spec().fields}
    found = [each for each, name in _FIELDS.items() if name in there]
    if found != ([partition_by] if partition_by else []):
        raise OutputError(
            f"{url}: the table is partitioned by {', '.join(found) or 'nothing'}, not by "
            f"{partition_by or 'nothing'}: it is the same for its whole life; give another --out"
        )
