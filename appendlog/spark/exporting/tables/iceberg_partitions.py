"""Partitions an Iceberg table: by day or hour of the append time, and by fields of messages.

Those by time are hidden from queries. A field is a column, of which each file has one value.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.partition_fields import Partitioning
from appendlog.spark.exporting.tables.table_names import lake_module
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.schema.columns import EXPORT_ROWS

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

_FIELDS: Final = {PartitionBy.DAY: "timestamp_day", PartitionBy.HOUR: "timestamp_hour"}


def partition_new(creation: "Transaction", partitioning: Partitioning) -> None:
    """Partition a table that is about to be created.

    Args:
        creation: Transaction that creates the table.
        partitioning: How to partition it.
    """
    transforms = lake_module("pyiceberg.transforms")
    with creation.update_spec() as spec:
        if partitioning.unit is not None:
            is_day = partitioning.unit is PartitionBy.DAY
            transform = transforms.DayTransform() if is_day else transforms.HourTransform()
            spec.add_field("timestamp", transform, _FIELDS[partitioning.unit])
        for column in partitioning.sources:
            spec.add_field(column, transforms.IdentityTransform(), column)


def check_partitions(table: "Table", url: str, partitioning: Partitioning) -> None:
    """Check that a table has the partitions of its files; others by columns of rows are allowed.

    Raises:
        OutputError: The table has other partitions by time or by fields of messages.
    """
    spec, schema = table.spec(), table.schema()
    names = {field.name for field in spec.fields}
    found = [str(each) for each, name in _FIELDS.items() if name in names]
    sources = {}
    for field in spec.fields:
        column = schema.find_field(field.source_id)
        if column.name not in EXPORT_ROWS.names:
            # A column of fields; one that has lost its description may be of any.
            sources[column.name] = column.doc or partitioning.sources.get(column.name, "?")
    found += _options(sources)
    wanted = [
        *([str(partitioning.unit)] if partitioning.unit else []),
        *_options(partitioning.sources),
    ]
    if found != wanted:
        raise OutputError(
            f"{url}: the table is partitioned by {','.join(found) or 'nothing'}, not by "
            f"{','.join(wanted) or 'nothing'}: it is the same for its whole life; give another "
            "--out"
        )


def _options(sources: Mapping[str, str]) -> list[str]:
    return [f"{column}={source}" for column, source in sources.items()]
