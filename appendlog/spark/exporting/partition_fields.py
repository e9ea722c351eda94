"""Fields of messages by which an export divides its files: headers, and members of JSON bodies.

    header:region                   header `region`, column `region`
    json:customer.country           member `country` of member `customer` of the body
    land=json:customer.country      the same, in a column `land`

A value becomes the text of a folder, `region=eu/`, as Spark and Hive write partitions. Messages
without a value, or with one that cannot name a folder, are in `region=__HIVE_DEFAULT_PARTITION__/`,
which is null for readers.
"""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

try:
    import orjson
except ModuleNotFoundError:
    # Workers of a cluster need not have it. The other parser takes all that it takes, and more.
    orjson = None  # type: ignore[assignment]

from appendlog.spark.errors import PartitionFieldError
from appendlog.spark.exporting.layout import FOLDER_BYTES_MAX, NULL_FOLDER_TEXT, hive_folder
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.schema.columns import KNOWN_ROWS

FIELDS_MAX: Final = 3
"""Most fields of an export: each multiplies the number of its files."""
HOW_WRITTEN: Final = (
    "day, hour, header:NAME, or json:MEMBER.MEMBER for a member of JSON bodies; COLUMN=header:NAME "
    "names its column"
)

_UNITS: Final = tuple(PartitionBy)
_FIELD: Final = re.compile(r"(?:([^=:]*)=)?(header|json):(.+)", re.DOTALL)
_COLUMN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_NOT_IN_COLUMN: Final = re.compile(r"[^A-Za-z0-9_]")
_EXACT_END: Final = 1 << 63
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Columns of rows and of folders; names of columns have no case in Spark.
_TAKEN: Final = frozenset(
    name.lower() for name in (*KNOWN_ROWS.names, "value_base64", "queue", "date", "hour")
)


class FieldSource(StrEnum):
    """Part of a message that has a field."""

    HEADER = "header"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field, and the column that readers see; picklable.

    Attributes:
        column: Name of the column and of the folders.
        source: Part of the message.
        path: Name of the header; or names of members, from the outermost one on, with dots between.
    """

    column: str
    source: FieldSource
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the field that a user has written.

        Raises:
            PartitionFieldError: The text is none, or its column cannot be one.
        """
        found = _FIELD.fullmatch(text)
        if found is None:
            raise PartitionFieldError(f"{text!r} divides no files: write {HOW_WRITTEN}")
        column, source, path = found[1], FieldSource(found[2]), found[3]
        if source is FieldSource.JSON and "" in path.split("."):
            raise PartitionFieldError(f"{text!r}: a member between two dots has no name")
        if column is None:
            last = path.rpartition(".")[2] if source is FieldSource.JSON else path
            column = _NOT_IN_COLUMN.sub("_", last)
        if not _COLUMN.fullmatch(column):
            raise PartitionFieldError(
                f"{text!r}: {column!r} cannot be a column: write COLUMN={source}:{path}, with "
                "letters, digits and _, a letter first, at most 64"
            )
        if column.lower() in _TAKEN:
            raise PartitionFieldError(
                f"{text!r}: {column!r} is a column of every export: write COLUMN={source}:{path} "
                "with another name"
            )
        return cls(column, source, path)

    def __str__(self) -> str:
        """Return the place of the values, without the column: `header:region`."""
        return f"{self.source}:{self.path}"

    def values(self, rows: pa.Table) -> pa.Array:
        """Return the value of each row as text that can name a folder; null without one.

        Args:
            rows: Rows of an export, with the columns `headers` and `value`.
        """
        if self.source is FieldSource.HEADER:
            headers = rows.column("headers").combine_chunks()
            # Of a header that is there twice, the first one; a property list has it once.
            texts = pc.map_lookup(headers, self.path, "first")
        else:
            members = self.path.split(".")
            bodies = rows.column("value").to_pylist()
            texts = pa.array([_member(body, members) for body in bodies], pa.string())
        return self._usable(texts)

    def _usable(self, texts: pa.Array) -> pa.Array:
        """Make null of texts that cannot name a folder."""
        different = texts.dictionary_encode()
        names = different.dictionary.to_pylist()
        usable = [name if self._names_folder(name) else None for name in names]
        if usable == names:
            return texts
        return pa.array(usable, pa.string()).take(different.indices)

    def _names_folder(self, text: str) -> bool:
        if text in ("", NULL_FOLDER_TEXT):
            return False
        return len(hive_folder(self.column, text).encode()) <= FOLDER_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How an export divides its files.

    Attributes:
        unit: Unit of time of the append time; None for no division by it.
        fields: Fields of messages, in the order of their folders.
    """

    unit: PartitionBy | None = None
    fields: tuple[PartitionField, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a user has written: units and fields, with commas between.

        Raises:
            PartitionFieldError: It cannot be understood.
        """
        words = [word.strip() for word in text.split(",")]
        units = [PartitionBy(word) for word in words if word in _UNITS]
        if len(units) > 1:
            raise PartitionFieldError(f"{text!r}: write one of day and hour, once")
        fields = tuple(PartitionField.parse(word) for word in words if word not in _UNITS)
        if len(fields) > FIELDS_MAX:
            raise PartitionFieldError(
                f"{text!r}: {len(fields)} fields, {FIELDS_MAX} are the most: each multiplies the "
                "number of files"
            )
        names = [field.column.lower() for field in fields]
        for name in names:
            if names.count(name) > 1:
                raise PartitionFieldError(
                    f"{text!r}: two fields make a column {name!r}: write COLUMN= before one of them"
                )
        return cls(units[0] if units else None, fields)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that readers see, in the order of the folders."""
        of_time = self.unit.columns if self.unit else ()
        return (*of_time, *(field.column for field in self.fields))

    @property
    def sources(self) -> dict[str, str]:
        """Return the place in messages of each column of a field: `header:region`."""
        return {field.column: str(field) for field in self.fields}


NO_PARTITIONS: Final = Partitioning()


@dataclass(frozen=True, slots=True)
class RowsOfFolder:
    """Rows of one folder.

    Attributes:
        folder: Path below the folder by time: `region=eu/`; empty without fields.
        rows: At least one row, in the order of offsets.
    """

    folder: str
    rows: pa.Table


def divide_rows(
    rows: pa.Table, fields: Sequence[PartitionField], *, keeps_columns: bool = False
) -> list[RowsOfFolder]:
    """Divide rows by their values of some fields.

    Args:
        rows: At least one row, in the order of offsets.
        fields: Fields; without any, all rows are in one folder.
        keeps_columns: Whether the result has the values as columns behind the others.

    Returns:
        The rows of each folder, in the order of the folders.
    """
    if not fields:
        return [RowsOfFolder("", rows)]
    columns = [field.values(rows) for field in fields]
    number = np.zeros(rows.num_rows, np.int64)
    for column in columns:
        codes = pc.fill_null(column.dictionary_encode().indices, -1).to_numpy() + 1
        number = number * (int(codes.max()) + 1) + codes
        # Numbered anew, so that the product of the next step stays small.
        number = np.unique(number, return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    ends = [*starts[1:].tolist(), rows.num_rows]
    if keeps_columns:
        for field, column in zip(fields, columns, strict=True):
            rows = rows.append_column(field.column, column)
    divided = rows.take(pa.array(order))
    found = []
    for start, end in zip(starts.tolist(), ends, strict=True):
        row = int(order[start])
        folder = "".join(
            f"{hive_folder(field.column, column[row].as_py())}/"
            for field, column in zip(fields, columns, strict=True)
        )
        found.append(RowsOfFolder(folder, divided.slice(start, end - start)))
    return sorted(found, key=lambda each: each.folder)


def _member(body: bytes | None, members: Sequence[str]) -> str | None:
    """Return the text of a member of a JSON body; None if there is none, or it has members."""
    value = _find(body or b"", members)
    match value:
        case str():
            # Half of a pair of surrogates is no text.
            return None if _SURROGATE.search(value) else value
        case bool() | int():
            return json.dumps(value)
        case float() if math.isfinite(value):
            return json.dumps(value)
    return None


def _find(body: bytes, members: Sequence[str]) -> object:
    """Return a member of a JSON body; None if there is none."""
    if orjson is not None:
        with suppress(orjson.JSONDecodeError):
            value = _inside(orjson.loads(body), members)
            # It makes a float of an integer that needs more than 64 bits.
            if not isinstance(value, float) or abs(value) < _EXACT_END:
                return value
    try:
        return _inside(json.loads(body), members)
    except (ValueError, RecursionError):
        return None


def _inside(value: object, members: Sequence[str]) -> object:
    for member in members:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    return value
