"""Columns of a Delta table: those of rows, of partitions, and of users."""

from typing import TYPE_CHECKING, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.partition_fields import Partitioning
from appendlog.spark.exporting.tables.delta_actions import STATISTICS
from appendlog.spark.exporting.tables.delta_rules import rules_of
from appendlog.spark.exporting.tables.table_names import lake_module
from appendlog.spark.schema.columns import EXPORT_ROWS

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema


_COMMENT: Final = "comment"


class DeltaColumns:
    """Columns that a table must have.

    Args:
        url: URL of the table, for messages.
        partitioning: How it is partitioned.

    Attributes:
        partition_by: Columns that it is partitioned by: none, `date`, or `date`, `hour`; then those
            of fields.
    """

    def __init__(self, url: str, partitioning: Partitioning) -> None:
        self.partition_by: Final = list(partitioning.columns)
        self._sources = partitioning.sources
        self._url = url
        self._delta = lake_module("deltalake")

    def schema(self) -> "Schema":
        """Return the columns of a new table."""
        schema: Schema = self._delta.Schema.from_arrow(EXPORT_ROWS.arrow)
        fields = [*schema.fields]
        for name in self.partition_by:
            source = self._sources.get(name)
            kind = "string" if source else "date" if name == "date" else "integer"
            primitive = self._delta.schema.PrimitiveType(kind)
            comment = {_COMMENT: source} if source else None
            fields.append(self._delta.Field(name, primitive, nullable=True, metadata=comment))
        return self._delta.Schema(fields)  # type: ignore[no-any-return]

    def check(self, table: "DeltaTable") -> None:
        """Check that exports can add rows to a table.

        Raises:
            OutputError: A column has another type, the table is partitioned in another way, or it
                has rules for its rows.
        """
        columns = [field.name for field in self.schema().fields]
        of_time = [name for name in self.partition_by if name not in self._sources]
        filled = [*STATISTICS.split(","), *of_time]
        rules_of(table, self._url).refuse_for_exports(columns, filled)
        wanted = {field.name: field.type for field in self.schema().fields}
        for field in table.schema().fields:
            if field.type != wanted.get(field.name, field.type):
                raise OutputError(
                    f"{self._url}: column {field.name} is {field.type}, expected "
                    f"{wanted[field.name]}: not a table of an export; give another --out"
                )
        found = table.metadata().partition_columns
        if found != self.partition_by:
            raise OutputError(
                f"{self._url}: the table is partitioned by {', '.join(found) or 'nothing'}, not "
                f"by {', '.join(self.partition_by) or 'nothing'}: give the --partition-by that "
                "it began with, or another --out"
            )
        for field in table.schema().fields:
            source = self._sources.get(field.name)
            noted = field.metadata.get(_COMMENT, source)
            if source and noted != source:
                raise OutputError(
                    f"{self._url}: its column {field.name} is {noted}, not {source}: give the "
                    "--partition-by that it began with, or another --out"
                )

    def add_missing(self, table: "DeltaTable") -> None:
        """Add columns of newer versions that a table lacks, in a commit of its own."""
        there = {field.name for field in table.schema().fields}
        missing = [field for field in self.schema().fields if field.name not in there]
        if missing:
            table.alter.add_columns(missing)
