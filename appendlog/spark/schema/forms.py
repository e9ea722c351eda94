"""Other forms of columns: headers as JSON or as octets, rows as Kafka's source has them.

A form is the type of a column, and the decoder goes by the types of a schema.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from appendlog.spark.schema.columns import KNOWN_ROWS, Column, RowSchema

HEADERS_FORMS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "map": Column("headers", "MAP<STRING,STRING>", pa.map_(pa.string(), pa.string()), False),
        "json": Column("headers", "STRING", pa.string(), False),
        "raw": Column("headers", "BINARY", pa.binary(), False),
    }
)
"""Values of `headersAs`: `json` as in `appendlog.layout.headers_json`, `raw` the table's bytes."""

KAFKA_HEADERS: Final = Column(
    "headers",
    "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>",
    pa.list_(
        pa.field(
            "element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        )
    ),
    False,
)
"""All headers in their order; strings unchanged, other values as the UTF-8 of their text."""

_KAFKA_KEY: Final = Column("key", "BINARY", pa.binary(), True)
_KAFKA_NAMES: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)


def with_headers_as(form: str, rows: RowSchema = KNOWN_ROWS) -> RowSchema:
    """Return a schema with another form of the headers, if it has headers."""
    return _replaced(rows, HEADERS_FORMS[form])


def kafka_rows(*, include_headers: bool = False) -> RowSchema:
    """Return the columns of Spark's source for Kafka: its names, types and order."""
    rows = _replaced(KNOWN_ROWS.only(_KAFKA_NAMES), _KAFKA_KEY)
    return RowSchema((*rows.columns, KAFKA_HEADERS)) if include_headers else rows


def _replaced(rows: RowSchema, column: Column) -> RowSchema:
    return RowSchema(tuple(column if each.name == column.name else each for each in rows.columns))
