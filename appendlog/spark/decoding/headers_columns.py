"""Columns of headers in each of their forms, row by row: the reference."""

from typing import Protocol

import pyarrow as pa

from appendlog.layout.headers import MalformedHeadersError, decode_headers, decode_raw_headers
from appendlog.layout.headers_json import headers_as_json

Pair = tuple[str, str | bytes | None]


class HeadersColumn(Protocol):
    """A column under construction."""

    def add(self, table: bytes | None) -> bool:
        """Add one row; None is a null, which is not the same as a table without entries.

        Returns:
            False when the table does not add up; then the row is a null.
        """

    def array(self) -> pa.Array:
        """Return the column."""


def headers_column(arrow_type: pa.DataType) -> HeadersColumn:
    """Return an empty column of a type of `schema.forms`."""
    if pa.types.is_binary(arrow_type):
        return RawColumn()
    return JsonColumn() if pa.types.is_string(arrow_type) else EntriesColumn(arrow_type)


class RawColumn:
    """Tables as they are; not looked into."""

    def __init__(self) -> None:
        self._rows: list[bytes | None] = []

    def add(self, table: bytes | None) -> bool:
        """Add one row."""
        self._rows.append(table)
        return True

    def array(self) -> pa.Array:
        """Return the column."""
        return pa.array(self._rows, pa.binary())


class JsonColumn:
    """Tables as JSON."""

    def __init__(self) -> None:
        self._rows: list[str | None] = []

    def add(self, table: bytes | None) -> bool:
        """Add one row."""
        try:
            self._rows.append(None if table is None else headers_as_json(table))
        except MalformedHeadersError:
            self._rows.append(None)
            return False
        return True

    def array(self) -> pa.Array:
        """Return the column."""
        return pa.array(self._rows, pa.string())


class EntriesColumn:
    """Tables as maps or lists of pairs, flat: no object is kept for each row or pair.

    Args:
        arrow_type: A map from text to text, or a list of structures of text and octets.
    """

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        self._is_map = pa.types.is_map(arrow_type)
        self._starts: list[int | None] = []
        self._keys: list[str] = []
        self._values: list[str | bytes | None] = []

    def add(self, table: bytes | None) -> bool:
        """Add one row."""
        try:
            pairs = None if table is None else self._pairs(table)
        except MalformedHeadersError:
            self._starts.append(None)
            return False
        if pairs is None:
            self._starts.append(None)
            return True
        self._starts.append(len(self._keys))
        self._keys += [key for key, _ in pairs]
        self._values += [value for _, value in pairs]
        return True

    def array(self) -> pa.Array:
        """Return the column."""
        starts = pa.array([*self._starts, len(self._keys)], pa.int32())
        keys = pa.array(self._keys, pa.string())
        if self._is_map:
            return pa.MapArray.from_arrays(starts, keys, pa.array(self._values, pa.string()))
        values = pa.array(self._values, pa.binary())
        fields = list(self._type.value_type)
        entries = pa.StructArray.from_arrays([keys, values], fields=fields)
        return pa.ListArray.from_arrays(starts, entries, type=self._type)

    def _pairs(self, table: bytes) -> list[Pair]:
        pairs: list[Pair] = []
        pairs += decode_headers(table).items() if self._is_map else decode_raw_headers(table)
        return pairs
