"""What rows look like to Spark: which columns, in which order, and the one for damage.

Spark takes batches without a look at them, apart from the first; a batch of another Arrow schema
than the one that it expects is a crash of the JVM. So every batch goes through a `RowLayout`.
"""

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import MapType, StringType, StructField, StructType

from appendlog.spark.errors import ColumnError
from appendlog.spark.schema.columns import KNOWN_ROWS, ROWS, Column, RowSchema

_KEPT_IN_CORRUPT_ROWS: Final = frozenset({"topic", "offset"})
_NEVER_NULL: Final = frozenset(
    {
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "exchange",
        "vhost",
        "timestamp_ns",
        "envelope",
    }
)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns that Spark was promised; picklable.

    Attributes:
        decoded: What has to be decoded for them; at least one column.
        arrow: Exactly what every batch has to be.
        corrupt_column: Which of them tells of damage; None when none does.
    """

    decoded: RowSchema
    arrow: pa.Schema
    corrupt_column: str | None

    def rows(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that has the columns of `decoded`, and maybe more."""
        if decoded.schema.equals(self.arrow):
            return decoded
        arrays = [
            pa.nulls(decoded.num_rows, field.type)
            if field.name == self.corrupt_column
            else decoded.column(field.name)
            for field in self.arrow
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def corrupt_row(self, topic: str, offset: int, text: str) -> pa.RecordBatch:
        """Return the row that stands for damaged bytes: all else in it is null.

        Args:
            topic: Queue.
            offset: Where the damage begins.
            text: What is known about it.
        """
        told = {"topic": topic, "offset": offset}
        if self.corrupt_column is not None:
            told[self.corrupt_column] = text
        arrays = [pa.array([told.get(field.name)], field.type) for field in self.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def choose_columns(names: Collection[str] | None, *, has_headers: bool) -> RowSchema:
    """Return the columns of a list, in its order; by default those that a row has.

    Args:
        names: What was asked for.
        has_headers: Whether the default has the headers.

    Raises:
        ColumnError: There is no such column, or it is named twice.
    """
    if names is None:
        return ROWS if has_headers else ROWS.without({"headers"})
    return RowSchema(tuple(_columns(names).values()))


def layout_of(wanted: StructType, corrupt_column: str, *, has_corrupt_rows: bool) -> RowLayout:
    """Return the layout of the columns that Spark asks for: what it got from us, or a user's own.

    Args:
        wanted: The schema.
        corrupt_column: Name of the column that tells of damage, if it is among them.
        has_corrupt_rows: Whether there can be rows that stand for damage.

    Raises:
        ColumnError: There is no such column, it is named twice, or it is of another type.
    """
    names = [field.name for field in wanted.fields if field.name != corrupt_column]
    known = _columns(names)
    if len(names) + 1 < len(wanted.fields):
        raise ColumnError(f"column {corrupt_column} is named twice")
    fields = []
    for field in wanted.fields:
        column = known.get(field.name)
        if column is None:
            fields.append(_corrupt_field(field))
            continue
        _check_type(field, column)
        never_null = _KEPT_IN_CORRUPT_ROWS if has_corrupt_rows else _NEVER_NULL
        if not field.nullable and column.name not in never_null:
            raise ColumnError(f"column {column.name} can be null: leave NOT NULL away")
        fields.append(pa.field(column.name, column.arrow_type, field.nullable))
    # Rows have to be counted by something, also where nothing but damage is asked for.
    decoded = RowSchema(tuple(known.values())) if known else ROWS.only({"offset"})
    has_column = len(names) < len(wanted.fields)
    return RowLayout(decoded, pa.schema(fields), corrupt_column if has_column else None)


def _columns(names: Collection[str]) -> dict[str, Column]:
    by_name = {column.name: column for column in KNOWN_ROWS.columns}
    found: dict[str, Column] = {}
    for name in names:
        if name not in by_name:
            lower = {known.lower(): known for known in by_name}
            near = difflib.get_close_matches(name.lower(), lower, 1, cutoff=0.5)
            advice = (
                f"did you mean {lower[near[0]]}?" if near else f"there are {', '.join(by_name)}"
            )
            raise ColumnError(f"there is no column {name!r}: {advice}")
        if name in found:
            raise ColumnError(f"column {name} is named twice")
        found[name] = by_name[name]
    return found


def _check_type(field: StructField, column: Column) -> None:
    expected = column.spark_type.lower().replace(" ", "")
    found = field.dataType.simpleString()
    is_strict = isinstance(field.dataType, MapType) and not field.dataType.valueContainsNull
    if found != expected or is_strict:
        more = " whose values can be null" if is_strict else ""
        raise ColumnError(f"column {column.name} is {column.spark_type}{more}, not {found.upper()}")


def _corrupt_field(field: StructField) -> pa.Field:
    if not isinstance(field.dataType, StringType) or not field.nullable:
        raise ColumnError(f"column {field.name} tells of damage: it is a STRING that can be null")
    return pa.field(field.name, pa.string())
