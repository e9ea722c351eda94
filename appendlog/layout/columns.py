"""Kernels that make columns: the compiled build if there is one, otherwise the interpreted one.

`AMQP_SERVER_PURE_PYTHON=1` uses the interpreted sources; `AMQP_SERVER_REQUIRE_COMPILED=1` refuses
to load without the compiled ones. The kernels fill the buffers of Apache Arrow columns. The caller
owns all buffers; the kernels check all lengths before they write.

    find_fields(data, positions, lengths, base, row, room, fields, is_text,
                with_properties, starts, ends, bits, octet_numbers, seconds, extra)
        -> (unreadable, malformed)

Note the places of the fields of messages. The messages at `positions` of `data`, as noted by
`walk_chunks`, become the rows from `row` on. `fields` lists the wanted fields, each one a *slot*:
`EXCHANGE`, `KEY`, `ENVELOPE` (everything before the body), `VALUE` (the body), and `PROPERTIES + n`
for the property of flag bit 15 - n, which is a string or the headers table. `is_text` states for
each slot whether it must be UTF-8. Other text is written after `extra`, with U+FFFD in place of the
bad bytes, as Python's `decode("utf-8", "replace")` does. All of these have `room` places for each
slot, one slot after the other; `room` is a multiple of 8 and more than the number of rows:

- `starts`: position of the field in `data`, plus `base`; `~start` if it is in `extra`,
- `ends` (int32): place `row + 1` is the end of the field in the column of its slot, which is the
  previous end plus the length of the field; place 0 belongs to the caller,
- `bits`: set if the field is present; zero before the call. There are three more slots: for
  delivery mode, priority and timestamp. The first two are in `octet_numbers` (int16, two times
  `room`), timestamps in `seconds` (int64, `room`; 2^64 - 1 is -1), if `with_properties` is true or
  a property is wanted.

A property list that does not add up is counted in `unreadable` and treated as empty. `malformed` is
the index of the first record that is not a message, where the kernel stops, or -1. Raises
ValueError for buffers that are too short, for a message outside `data`, and for a column over 2
GiB.

    copy_field(data, extra, starts, ends, first, count, target)

Copy the fields found by `find_fields` into `target`, the bytes of one column: places
`[first, first + count)` of `starts` and `ends`. `data` is the buffer in which they were found, or
one that contains it at their `base`.

    decode_tables(data, starts, ends, bits, first, first_bit, row, until_row, form, map_ends,
                  keys, key_ends, values, value_ends, value_bits, sums)
        -> (status, row)

Make entries from the headers tables found in the slot whose places begin at `first` and whose bits
begin at octet `first_bit`. `form` selects the values: `TEXT_VALUES`, the text of
`appendlog.layout.headers`; `RAW_VALUES`, strings and byte arrays unchanged and numbers as that
text; or `JSON_TEXT`, the text of `appendlog.layout.headers_json`. `map_ends[row + 1]` becomes the
number of entries up to the end of that row. Entries have their key and value in `keys` and `values`
up to `key_ends` and `value_ends` (int32) and a bit in `value_bits`. JSON is in `values` up to
`map_ends`, and there are no entries. `sums` (int64) are the numbers of entries, octets of keys and
octets of values, before and after the call. The kernel stops with

- TABLES_DONE: at `until_row`,
- TABLES_FULL: before a row that may not fit: a table of n octets needs n octets for keys, 6n + 2
  for values, and n / 2 entries (at most 64),
- TABLES_RARE: before a row with a table that is left to the caller: rare kinds (decimals, NaN and
  infinities, byte arrays unless raw), text that is not UTF-8 unless raw, more than 16 MiB or 64
  levels, bytes that do not add up; and except for JSON, more than 64 entries, or a repeated key of
  which the last value counts.

    fill_range(target, at, first, count)
    fill_microseconds(target, at, times_ns)

Write `first`, `first + 1`, ... or nanoseconds, rounded down to microseconds, to an int64 buffer.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Protocol

from appendlog.layout import _columns_py, _tables_py
from appendlog.layout._columns_py import (
    ENVELOPE,
    EXCHANGE,
    KEY,
    PROPERTIES,
    VALUE,
    ReadableBuffer,
)
from appendlog.layout._tables_py import (
    JSON_TEXT,
    RAW_VALUES,
    TABLES_DONE,
    TABLES_FULL,
    TABLES_RARE,
    TEXT_VALUES,
)
from appendlog.layout.builds import chosen_build

__all__ = [
    "COMPILED",
    "ENVELOPE",
    "EXCHANGE",
    "INTERPRETED",
    "JSON_TEXT",
    "KERNELS",
    "KEY",
    "PROPERTIES",
    "RAW_VALUES",
    "TABLES_DONE",
    "TABLES_FULL",
    "TABLES_RARE",
    "TEXT_VALUES",
    "VALUE",
    "ColumnsKernel",
    "Kernels",
    "ReadableBuffer",
    "TablesKernel",
    "load_kernels",
]


class ColumnsKernel(Protocol):
    """Functions of both builds of `_columns_py`; documented at the top of this module."""

    def find_fields(
        self,
        data: ReadableBuffer,
        positions: array[int],
        lengths: array[int],
        base: int,
        row: int,
        room: int,
        fields: array[int],
        is_text: array[int],
        with_properties: bool,
        starts: array[int],
        ends: memoryview,
        bits: bytearray,
        octet_numbers: memoryview,
        seconds: memoryview,
        extra: bytearray,
    ) -> tuple[int, int]:
        """Note the places of the fields of messages."""

    def copy_field(
        self,
        data: ReadableBuffer,
        extra: bytearray,
        starts: array[int],
        ends: memoryview,
        first: int,
        count: int,
        target: memoryview,
    ) -> None:
        """Fill one column with fields that were found."""

    def fill_range(self, target: memoryview, at: int, first: int, count: int) -> None:
        """Write consecutive numbers."""

    def fill_microseconds(self, target: memoryview, at: int, times_ns: array[int]) -> None:
        """Write times as microseconds."""


class TablesKernel(Protocol):
    """Function of both builds of `_tables_py`; documented at the top of this module."""

    def decode_tables(
        self,
        data: ReadableBuffer,
        starts: array[int],
        ends: memoryview,
        bits: bytearray,
        first: int,
        first_bit: int,
        row: int,
        until_row: int,
        form: int,
        map_ends: memoryview,
        keys: memoryview,
        key_ends: memoryview,
        values: memoryview,
        value_ends: memoryview,
        value_bits: memoryview,
        sums: array[int],
    ) -> tuple[int, int]:
        """Make entries from headers tables."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Both kernels, of the same build.

    Attributes:
        columns: Kernel of `_columns_py`.
        tables: Kernel of `_tables_py`.
    """

    columns: ColumnsKernel
    tables: TablesKernel


INTERPRETED: Kernels = Kernels(_columns_py, _tables_py)


def load_kernels() -> tuple[Kernels, bool]:
    """Return the kernels of the build that `chosen_build` selects, and whether it is compiled."""

    def load_compiled() -> Kernels:
        import appendlog.layout._columns_c as columns
        import appendlog.layout._tables_c as tables

        return Kernels(columns, tables)

    return chosen_build(load_compiled, INTERPRETED)


KERNELS, COMPILED = load_kernels()
