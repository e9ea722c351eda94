"""Columns of rows as Spark expects them, with the one that describes damage.

Spark checks only the first batch of a partition. A batch with another Arrow schema than expected
crashes the JVM. So every batch goes through a `RowLayout`.
"""

import difflib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from appendlog.spark.errors import ColumnError
from appendlog.spark.schema.columns import KNOWN_ROWS, ROWS, Column, RowSchema
from appendlog.spark.schema.forms import HEADERS_FORMS, KAFKA_HEADERS, kafka_rows

_FORMS: Final = (
    *KNOWN_ROWS.columns,
    *kafka_rows().only({"key"}).columns,
    *(column for name, column in HEADERS_FORMS.items() if name != "map"),
    KAFKA_HEADERS,
)
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
    """Columns that Spark was promised; picklable.

    Attributes:
        decoded: Columns to decode for them; at least one.
        arrow: Schema that every batch must have.
        corrupt_column: Name of the column that describes damage; None if there is none.
    """

    decoded: RowSchema
    arrow: pa.Schema
    corrupt_column: str | None

    def rows(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in this layout, made from one that has at least the columns `decoded`."""
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
        """Return a row for damaged bytes; its other columns are null.

        Args:
            topic: Name of the queue.
            offset: Offset at which the damage begins.
            text: Description of the damage, as JSON.
        """
        values = {"topic": topic, "offset": offset}
        if self.corrupt_column is not None:
            values[self.corrupt_column] = text
        arrays = [pa.array([values.get(field.name)], field.type) for field in self.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def choose_columns(names: Collection[str], rows: RowSchema) -> RowSchema:
    """Return the columns that are named in a list, in its order.

    Args:
        names: Names that the user gave.
        rows: All columns that exist.

    Raises:
        ColumnError: A column does not exist, or is named twice.
    """
    by_name = {column.name: column for column in rows.columns}
    _check_names(names)
    return RowSchema(tuple(by_name[name] for name in names))


def layout_of(wanted: StructType, corrupt_column: str, *, has_corrupt_rows: bool) -> RowLayout:
    """Return the layout for a schema: the one that this data source returned, or a user's.

    Args:
        wanted: Schema that Spark expects.
        corrupt_column: Name of the column that describes damage, if the schema has it.
        has_corrupt_rows: Whether damage becomes rows.

    Raises:
        ColumnError: A column does not exist, is named twice, or has another type.
    """
    if not wanted.fields:
        # A batch without columns has no rows: every count would be 0.
        raise ColumnError("the schema has no column: ask for one, such as offset BIGINT")
    names = [field.name for field in wanted.fields if field.name != corrupt_column]
    _check_names(names)
    if len(names) + 1 < len(wanted.fields):
        raise ColumnError(f"column {corrupt_column} is named twice")
    fields = []
    known = []
    for field in wanted.fields:
        if field.name == corrupt_column:
            fields.append(_corrupt_field(field))
            continue
        column = _column_of(field)
        known.append(column)
        never_null = _KEPT_IN_CORRUPT_ROWS if has_corrupt_rows else _NEVER_NULL
        if not field.nullable and column.name not in never_null:
            raise ColumnError(f"column {column.name} can be null: leave NOT NULL away")
        fields.append(pa.field(column.name, column.arrow_type, field.nullable))
    # Rows are counted by a column, also if the query asks for damage only.
    decoded = RowSchema(tuple(known)) if known else ROWS.only({"offset"})
    has_column = len(names) < len(wanted.fields)
    return RowLayout(decoded, pa.schema(fields), corrupt_column if has_column else None)


def _check_names(names: Collection[str]) -> None:
    known = {name.lower(): name for name in KNOWN_ROWS.names}
    for name in names:
        if name not in KNOWN_ROWS.names:
            near = difflib.get_close_matches(name.lower(), known, 1, cutoff=0.5)
            advice = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(known)}"
            raise ColumnError(f"there is no column {name!r}: {advice}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ColumnError(f"column {twice[0]} is named twice")


def _column_of(field: StructField) -> Column:
    """Return the form of a column that has the type that Spark expects."""
    forms = [column for column in _FORMS if column.name == field.name]
    for column in forms:
        # Spark's idea of the type: also whether what is inside of it can be null.
        if from_arrow_type(column.arrow_type) == field.dataType:
            return column
    types = [column.spark_type.replace("`", "") for column in forms]
    found = field.dataType.simpleString().upper()
    has_nulls = found in [each.replace(" ", "").upper() for each in types]
    more = " whose parts can be null" if has_nulls else ""
    raise ColumnError(f"column {field.name} is {' or '.join(types)}{more}, not {found}")


def _corrupt_field(field: StructField) -> pa.Field:
    if not isinstance(field.dataType, StringType) or not field.nullable:
        raise ColumnError(
            f"column {field.name} describes damage: it must be a STRING that can be null"
        )
    return pa.field(field.name, pa.string())
