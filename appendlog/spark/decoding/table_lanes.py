"""Headers tables of many messages as one column, entry by entry in all rows at once.

Step n looks at the n-th entry of every table and makes a map. What is rare is left to the
reference, each different table once: kinds other than text, integers, booleans and void; a key
that comes twice; text that is not UTF-8; tables that do not add up; forms other than a map.

Source: AMQP 0-9-1 specification, section 4.2.5.5; the texts are those of `layout.headers`.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from appendlog.layout.headers import HEADERS_BYTES_MAX
from appendlog.spark.decoding.headers_columns import headers_column
from appendlog.spark.decoding.message_places import Fields, Messages
from appendlog.spark.decoding.octets import (
    Integers,
    Mask,
    Octets,
    inside,
    network_u32_at,
    numbers_at,
    u8_at,
)
from appendlog.spark.decoding.picked_fields import picked_octets

ENTRIES_MAX: Final = 64
"""A table with more is rare."""

_TEXT: Final = ord("S")
_VOID: Final = ord("V")
_BOOLEAN: Final = ord("t")
_NUMBERS: Final = {
    ord(kind): np.dtype(layout)
    for kind, layout in {
        "b": "i1",
        "B": "u1",
        "s": ">i2",
        "u": ">u2",
        "I": ">i4",
        "i": ">u4",
        "l": ">i8",
        "L": ">i8",
        "T": ">u8",
    }.items()
}
_UNKNOWN: Final = -1


def _value_bytes() -> Integers:
    """Return how many octets a value has by its kind; `_UNKNOWN` for kinds that are rare."""
    sizes = np.full(256, _UNKNOWN, np.int64)
    for kind, layout in _NUMBERS.items():
        sizes[kind] = layout.itemsize
    sizes[[_TEXT, _VOID, _BOOLEAN]] = 4, 0, 1
    return sizes


_VALUE_BYTES: Final = _value_bytes()


class _Entries(NamedTuple):
    """Entries of tables, ordered by row, and in a row as they stand there.

    Attributes:
        rows: Of the entries.
        key_starts: Of the keys.
        key_stops: Behind them.
        kinds: Of the values.
        starts: Of the values.
        stops: Behind them.
    """

    rows: Integers
    key_starts: Integers
    key_stops: Integers
    kinds: Integers
    starts: Integers
    stops: Integers

    def where(self, mask: Mask) -> "_Entries":
        """Return those for which the mask is true."""
        return self if mask.all() else _Entries(*(column[mask] for column in self))


def tables_column(
    messages: Messages, fields: Fields, arrow_type: pa.DataType
) -> tuple[pa.Array, int]:
    """Return the column, null where there is no table, and how many do not add up.

    Args:
        messages: All.
        fields: Where their tables lie.
        arrow_type: One of `schema.forms`.
    """
    octets = messages.octets
    if pa.types.is_binary(arrow_type):
        return picked_octets(octets, fields.starts, fields.stops, fields.is_present), 0
    if pa.types.is_map(arrow_type):
        common, is_rare = _as_map(octets, fields)
    else:
        common, is_rare = pa.nulls(len(fields.starts), arrow_type), fields.is_present
    return _with_rare(common, octets, fields, np.flatnonzero(is_rare))


def _as_map(octets: Octets, fields: Fields) -> tuple[pa.Array, Mask]:
    """Return tables as a map column, and which rows are left out of it, as null."""
    entries, is_rare = _entries(octets, fields)
    is_text = entries.kinds == _TEXT
    keys = picked_octets(octets, entries.key_starts, entries.key_stops)
    texts = picked_octets(octets, entries.starts[is_text], entries.stops[is_text])
    is_rare[entries.rows[_not_utf8(keys)]] = True
    is_rare[entries.rows[is_text][_not_utf8(texts)]] = True
    is_rare[_rows_with_repeated_key(entries.rows, keys)] = True
    is_common = ~is_rare[entries.rows]
    if not is_common.all():
        entries = entries.where(is_common)
        keys = keys.filter(pa.array(is_common))
        texts = texts.filter(pa.array(is_common[is_text]))
    values = _values(octets, entries, texts.cast(pa.string()))
    keys = keys.cast(pa.string())
    return _map_column(fields.is_present & ~is_rare, entries.rows, keys, values), is_rare


def _entries(octets: Octets, fields: Fields) -> tuple[_Entries, Mask]:
    """Return the entries of tables, and which rows have a table that is rare.

    Of a rare one there are entries too, those in front of what makes it rare.
    """
    is_rare = fields.is_present & (fields.stops - fields.starts > HEADERS_BYTES_MAX)
    rows = np.flatnonzero(fields.is_present & ~is_rare & (fields.starts < fields.stops))
    at, ends = fields.starts[rows], fields.stops[rows]
    steps: list[_Entries] = []
    while len(rows) and len(steps) < ENTRIES_MAX:
        step, is_bad = _step(octets, rows, at, ends)
        if is_bad.any():
            is_rare[rows[is_bad]] = True
            step, ends = step.where(~is_bad), ends[~is_bad]
        steps.append(step)
        goes_on = step.stops < ends
        rows, at, ends = step.rows[goes_on], step.stops[goes_on], ends[goes_on]
    is_rare[rows] = True
    if not steps:
        return _Entries(*(np.empty(0, np.int64) for _ in _Entries._fields)), is_rare
    entries = _Entries(*(np.concatenate(columns) for columns in zip(*steps, strict=True)))
    if len(steps) > 1:
        order = np.argsort(entries.rows, kind="stable")
        entries = _Entries(*(column[order] for column in entries))
    return entries, is_rare


def _step(octets: Octets, rows: Integers, at: Integers, ends: Integers) -> tuple[_Entries, Mask]:
    """Return the entry at a place of each row, and which of them are rare or do not fit."""
    key_starts = at + 1
    key_stops = key_starts + u8_at(octets, at)
    kinds = u8_at(octets, inside(octets, key_stops, 1))
    sizes = _VALUE_BYTES[kinds]
    is_text = kinds == _TEXT
    starts = key_stops + 1
    if is_text.any():
        lengths = network_u32_at(octets, inside(octets, starts, 4))
        starts = np.where(is_text, starts + 4, starts)
        stops = starts + np.where(is_text, lengths, sizes)
    else:
        stops = starts + sizes
    is_bad = (sizes == _UNKNOWN) | (stops > ends)
    return _Entries(rows, key_starts, key_stops, kinds, starts, stops), is_bad


def _not_utf8(fields: pa.Array) -> Mask:
    """Return which elements are not UTF-8."""
    try:
        fields.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([not _is_utf8(field) for field in fields.to_pylist()])
    return np.zeros(len(fields), bool)


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _rows_with_repeated_key(rows: Integers, keys: pa.Array) -> Integers:
    encoded = keys.dictionary_encode()
    names = max(len(encoded.dictionary), 1)
    pairs = np.sort(rows * names + encoded.indices.to_numpy())
    rows_with: Integers = pairs[1:][pairs[1:] == pairs[:-1]] // names
    return rows_with


def _values(octets: Octets, entries: _Entries, texts: pa.Array) -> pa.Array:
    """Return the values of entries as text, given those that are text already."""
    if len(texts) == len(entries.kinds):
        return texts
    parts = [texts]
    places = [np.flatnonzero(entries.kinds == _TEXT)]
    for kind in np.unique(entries.kinds).tolist():
        if kind != _TEXT:
            at = np.flatnonzero(entries.kinds == kind)
            parts.append(_texts_of(octets, kind, entries.starts[at]))
            places.append(at)
    order = np.empty(len(entries.kinds), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(order))


def _texts_of(octets: Octets, kind: int, starts: Integers) -> pa.Array:
    """Return values of one kind as text."""
    if kind == _VOID:
        return pa.nulls(len(starts), pa.string())
    if kind == _BOOLEAN:
        is_true = (u8_at(octets, starts) != 0).astype(np.int8)
        return pa.array(["false", "true"], pa.string()).take(pa.array(is_true))
    numbers = numbers_at(octets, starts, _NUMBERS[kind])
    return pa.array(numbers.astype(numbers.dtype.newbyteorder("="))).cast(pa.string())


def _map_column(has_table: Mask, rows: Integers, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Return a map for each row that has a table, null for others."""
    ends = np.cumsum(np.bincount(rows, minlength=len(has_table)))
    offsets = np.concatenate((np.zeros(1, np.int64), ends))
    is_null = np.concatenate((~has_table, np.zeros(1, bool)))
    starts = pa.array(offsets, pa.int32(), mask=is_null if is_null.any() else None)
    return pa.MapArray.from_arrays(starts, keys, values)


def _with_rare(
    common: pa.Array, octets: Octets, fields: Fields, rare_rows: Integers
) -> tuple[pa.Array, int]:
    """Decode what is rare by the reference, each different table once, and put it in its place."""
    if not len(rare_rows):
        return common, 0
    rare = headers_column(common.type)
    known: dict[bytes, tuple[int, bool]] = {}
    order = np.arange(len(common))
    unreadable = 0
    for row in rare_rows.tolist():
        table = octets[fields.starts[row] : fields.stops[row]].tobytes()
        if table not in known:
            known[table] = len(known), rare.add(table)
        at, is_whole = known[table]
        unreadable += not is_whole
        order[row] = len(common) + at
    return pa.concat_arrays([common, rare.array()]).take(pa.array(order)), unreadable
