"""How an Iceberg table is partitioned: by day or hour of the append time, hidden from queries."""

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
        creation: What creates it.
        partition_by: Nothing is done if None.
    """
    if partition_by is None:
        return
    transforms = lake_module("pyiceberg.transforms")
    is_day = partition_by is PartitionBy.DAY
    transform = transforms.DayTransform() if is_day else transforms.HourTransform()
    with creation.update_spec() as spec:
        spec.add_field("timestamp", transform, _FIELDS[partition_by])


def check_partitions(table: "Table", url: str, partition_by: PartitionBy | None) -> None:
    """Check that a table is partitioned by time as its files will be; fields of others may be.

    Raises:
        OutputError: It is not.
    """
    there = {field.name for field in table.spec().fields}
    found = [each for each, name in _FIELDS.items() if name in there]
    if found != ([partition_by] if partition_by else []):
        raise OutputError(
            f"{url}: the table is partitioned by {', '.join(found) or 'nothing'}, not by "
            f"{partition_by or 'nothing'}: it is the same for its whole life; give another --out"
        )
