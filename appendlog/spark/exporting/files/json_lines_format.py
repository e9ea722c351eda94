"""Writes JSON lines: an object for each message, with every column.

Arrow turns each column into JSON text and joins the texts, so rows never become Python objects.
Only base64, and text with rare control characters, goes through Python.

    string       as JSON text          timestamp    "2026-11-21T17:00:00.123456Z"
    integer      as digits             map          an object
    binary       base64                `value`      text when it is UTF-8, else null, and then
                                       `value_base64` has it

Of `value` and `value_base64` exactly one is not null. The same rows make the same bytes.
"""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.spark.schema.columns import EXPORT_ROWS, RowSchema

Compression = Literal["", "gz", "zst"]

VALUE: Final = "value"
VALUE_BASE64: Final = "value_base64"
_GZIP_LEVEL: Final = 4
_TEXT: Final = pa.large_string()
# In this order: a later replacement must not find text of an earlier one.
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROL: Final = "[\x00-\x1f]"


def json_ddl(schema: RowSchema = EXPORT_ROWS) -> str:
    """Return the columns of the objects as Spark's DDL, for `spark.read.schema(...).json`."""
    columns = [
        f"`{column.name}` {column.spark_type.replace('BINARY', 'STRING')}"
        for column in schema.columns
    ]
    at = schema.names.index(VALUE) + 1
    return ", ".join([*columns[:at], f"`{VALUE_BASE64}` STRING", *columns[at:]])


@dataclass(frozen=True, slots=True)
class JsonLinesFormat:
    """Files of JSON lines; see `FileFormat`.

    Attributes:
        compression: None, gzip (which Spark reads) or Zstandard; each group of rows is a member.
    """

    compression: Compression = ""

    @property
    def extension(self) -> str:
        """See `FileFormat.extension`."""
        return f"jsonl.{self.compression}" if self.compression else "jsonl"

    def open(self, file: BinaryIO, schema: pa.Schema) -> "JsonLinesFile":
        """See `FileFormat.open`; the schema is not needed."""
        return JsonLinesFile(file, self.compression)


class JsonLinesFile:
    """One file of JSON lines that is being written; see `FileWriter`."""

    def __init__(self, file: BinaryIO, compression: Compression) -> None:
        self._file = file
        self._compression = compression

    def write(self, rows: pa.Table) -> None:
        """Append a line for each row."""
        for batch in rows.to_batches():
            data = json_lines(batch)
            if self._compression == "gz":
                # No time in the header of gzip: the same rows make the same bytes.
                self._file.write(gzip.compress(data, _GZIP_LEVEL, mtime=0))
            elif self._compression == "zst":
                self._file.write(pa.Codec("zstd").compress(data, asbytes=True))
            else:
                self._file.write(data)

    def close(self, metadata: Mapping[str, str]) -> None:
        """Do nothing: a file of JSON lines has no place for metadata."""

    def discard(self) -> None:
        """Do nothing: there are no resources."""


def json_lines(rows: pa.RecordBatch) -> memoryview:
    """Return rows as lines of JSON in UTF-8, each with a line feed.

    Args:
        rows: At least one row; at most a few hundred MiB.
    """
    pieces: list[pa.Array | pa.Scalar] = []
    before = "{"
    for name, text in _columns(rows):
        pieces += (pa.scalar(f"{before}{json.dumps(name)}:", _TEXT), text)
        before = ","
    pieces.append(pa.scalar("}\n", _TEXT))
    lines = pc.binary_join_element_wise(*pieces, pa.scalar("", _TEXT))
    _, positions, data = lines.buffers()
    starts = memoryview(positions).cast("q")[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[starts[0] : starts[-1]]


def _columns(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array | pa.Scalar]]:
    """Yield the name and the JSON text of each column."""
    for field in rows.schema:
        column = rows.column(field.name)
        if field.name == VALUE and pa.types.is_binary(field.type):
            text, other = _split_text(column)
            yield VALUE, _json(text)
            yield VALUE_BASE64, _json(other)
        else:
            yield field.name, _json(column)


def _json(column: pa.Array) -> pa.Array | pa.Scalar:
    """Return the JSON of a column as large strings without nulls; a scalar if all are equal."""
    kind = column.type
    if column.null_count == len(column):
        return pa.scalar("null", _TEXT)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _base64(column)
    if pa.types.is_timestamp(kind):
        return _quoted(_times(column))
    if pa.types.is_map(kind):
        return _objects(column)
    return _or_null(column.cast(_TEXT))


def _split_text(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return bodies that are UTF-8 as text, and the others as octets; in each row one is null."""
    try:
        return values.cast(pa.string()), pa.nulls(len(values), values.type)
    except pa.ArrowInvalid:
        texts = [_decoded(value) for value in values.to_pylist()]
        is_text = pc.is_valid(pa.array(texts, _TEXT))
        return pa.array(texts, _TEXT), pc.if_else(is_text, pa.scalar(None, values.type), values)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _text(column: pa.Array) -> pa.Array:
    """Return strings as JSON strings."""
    escaped = column.cast(_TEXT)
    for found, instead in _ESCAPES:
        escaped = pc.replace_substring(escaped, found, instead)
    quoted = _quoted(escaped)
    is_rare = pc.fill_null(pc.match_substring_regex(escaped, _CONTROL), False)
    if not pc.any(is_rare).as_py():
        return quoted
    rare = [json.dumps(text, ensure_ascii=False) for text in column.filter(is_rare).to_pylist()]
    return pc.replace_with_mask(quoted, is_rare, pa.array(rare, _TEXT))


def _times(column: pa.TimestampArray) -> pa.Array:
    # Arrow's strftime takes longer than everything else together.
    return pc.replace_substring(column.cast(pa.string()), " ", "T")


def _base64(column: pa.Array) -> pa.Array:
    encoded = [
        None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()
    ]
    return _quoted(pa.array(encoded, _TEXT))


def _objects(column: pa.MapArray) -> pa.Array:
    """Return maps of strings as JSON objects."""
    starts = column.offsets
    first, last = starts[0].as_py(), starts[-1].as_py()
    keys, values = column.keys.slice(first, last - first), column.items.slice(first, last - first)
    pairs = pc.binary_join_element_wise(_text(keys), _text(values), pa.scalar(":", _TEXT))
    lists = pa.ListArray.from_arrays(pc.subtract(starts, first), pairs)
    joined = pc.binary_join(lists, pa.scalar(",", _TEXT))
    objects = pc.binary_join_element_wise(
        pa.scalar("{", _TEXT), joined, pa.scalar("}", _TEXT), pa.scalar("", _TEXT)
    )
    return pc.if_else(pc.is_valid(column), objects, pa.scalar("null", _TEXT))


def _quoted(column: pa.Array) -> pa.Array:
    quote = pa.scalar('"', _TEXT)
    text = column.cast(_TEXT)
    return _or_null(pc.binary_join_element_wise(quote, text, quote, pa.scalar("", _TEXT)))


def _or_null(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, pa.scalar("null", _TEXT))
