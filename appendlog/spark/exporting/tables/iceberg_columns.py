"""Columns of an Iceberg table: exports fill those of rows, by their names.

Iceberg knows a column by its number, the files of an export only by its name. So a column that was
renamed or dropped is refused before anything is written: the library's own advice would add it a
second time. A column that the table never had is one of a later version, and is added.
"""

from typing import TYPE_CHECKING

import pyarrow as pa

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.partition_fields import Partitioning
from appendlog.spark.schema.columns import EXPORT_ROWS

if TYPE_CHECKING:
    from pyiceberg.table import Table


def table_schema(partitioning: Partitioning) -> pa.Schema:
    """Return the columns of a new table: those of rows, and of the fields of its partitions.

    The description of such a column says which field of messages it has.
    """
    fields = [
        pa.field(column, pa.string(), metadata={"doc": source})
        for column, source in partitioning.sources.items()
    ]
    return pa.schema([*EXPORT_ROWS.arrow, *fields])


def check_columns(table: "Table", url: str) -> None:
    """Check that exports can add rows to a table.

    Args:
        table: The table.
        url: URL of the table, for messages.

    Raises:
        OutputError: A column was renamed or dropped, or must not be null.
    """
    for field in table.schema().fields:
        if field.required:
            raise OutputError(
                f"{url}: its column {field.name} must not be null, and a row of an export can have "
                "null in every column: make it optional, or give another --out"
            )
    names = {field.field_id: field.name for field in table.schema().fields}
    earlier = {
        field.name: field.field_id for schema in table.metadata.schemas for field in schema.fields
    }
    there = set(names.values())
    for name in EXPORT_ROWS.names:
        if name in there or name not in earlier:
            continue
        now = names.get(earlier[name])
        what = (
            f"was dropped: add it again ({EXPORT_ROWS.only({name}).ddl})"
            if now is None
            else f"is called {now} now: give it its name again"
        )
        raise OutputError(
            f"{url}: exports fill columns by their names, and {name} {what}, or give another --out"
        )


def add_missing(table: "Table") -> None:
    """Add columns of newer versions that a table lacks, in a commit of its own.

    Raises:
        CommitFailedException: Another writer has changed the table since.
    """
    there = {field.name for field in table.schema().fields}
    missing = [name for name in EXPORT_ROWS.names if name not in there]
    if missing:
        with table.update_schema() as update:
            update.union_by_name(EXPORT_ROWS.only(missing).arrow)
