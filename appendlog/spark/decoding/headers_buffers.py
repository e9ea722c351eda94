"""A column of headers under construction: entries in flat buffers that grow.

Most tables the kernel takes; what it leaves is decoded here, one table at a time.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from appendlog.layout.columns import TABLES_DONE, TABLES_FULL, ColumnsKernel, ReadableBuffer
from appendlog.layout.headers import MalformedHeadersError
from appendlog.spark.decoding.column_buffers import ColumnBuffer
from appendlog.spark.decoding.found_fields import FoundFields

Entries = Iterable[tuple[bytes, bytes | None]]
"""Keys and values of one table; None is a null."""

_ENTRIES: Final = 4096
_BYTES: Final = 64 << 10
_ENTRIES_OF_TABLE: Final = 64
"""So many the kernel takes of one table at most."""


class HeadersBuffers:
    """Makes one column of headers, for one batch after the other.

    Args:
        kernel: To use.
        form: Of the values, as the kernel has it.
        decode: Makes the entries of a table that the kernel leaves to us; raises
            MalformedHeadersError.
        arrow_type: Of the column: a map, or a list of structures, of a string and another.
    """

    def __init__(
        self,
        kernel: ColumnsKernel,
        form: int,
        decode: Callable[[bytes], Entries],
        arrow_type: pa.DataType,
    ) -> None:
        self._kernel = kernel
        self._form = form
        self._decode = decode
        self._type = arrow_type
        self._entry_type = arrow_type.field(0).type
        self._sums = array("q", (_ENTRIES, _BYTES, _BYTES))

    def column(
        self,
        batch: FoundFields,
        slot: int,
        buffers: Iterable[tuple[ReadableBuffer, int]],
        rows: int,
    ) -> tuple[pa.Array, int]:
        """Return the column, and how many of its tables do not add up: they are null.

        Args:
            batch: What was found in the messages.
            slot: Of the headers.
            buffers: Where the rows lie, and how many in each.
            rows: All of them.
        """
        self._begin(rows)
        row = malformed = 0
        for data, count in buffers:
            malformed += self._add(batch, slot, data, row, row + count)
            row += count
        return self._array(batch.validity(slot), rows), malformed

    def _begin(self, rows: int) -> None:
        """Make room for as much as the batch before had, and a little more."""
        entries, key_bytes, value_bytes = (size + size // 8 for size in self._sums)
        self._sums = array("q", (0, 0, 0))
        self._row_ends = ColumnBuffer(rows + 1, "i")
        self._row_ends.view[0] = 0
        self._make_buffers(entries + _ENTRIES_OF_TABLE, key_bytes, value_bytes)

    def _make_buffers(self, entries: int, key_bytes: int, value_bytes: int) -> None:
        self._keys, self._values = ColumnBuffer(key_bytes, "B"), ColumnBuffer(value_bytes, "B")
        self._key_ends, self._value_ends = (ColumnBuffer(entries + 1, "i") for _ in range(2))
        self._key_ends.view[0] = self._value_ends.view[0] = 0
        self._value_bits = ColumnBuffer(entries // 8 + 1, "B")

    def _add(
        self, batch: FoundFields, slot: int, data: ReadableBuffer, row: int, until_row: int
    ) -> int:
        """Add the tables of rows that lie in one buffer; return how many do not add up."""
        first, first_bit = slot * batch.room, slot * (batch.room >> 3)
        malformed = 0
        while True:
            status, row = self._kernel.decode_tables(
                data,
                batch.starts,
                batch.ends,
                batch.bits,
                first,
                first_bit,
                row,
                until_row,
                self._form,
                self._row_ends.view,
                self._keys.view,
                self._key_ends.view,
                self._values.view,
                self._value_ends.view,
                self._value_bits.view,
                self._sums,
            )
            if status == TABLES_DONE:
                return malformed
            start = batch.starts[first + row]
            size = batch.ends[first + row + 1] - batch.ends[first + row]
            if status == TABLES_FULL:
                self._make_room(_ENTRIES_OF_TABLE, size, 2 * size)
                continue
            try:
                self._put(list(self._decode(bytes(data[start : start + size]))))
            except MalformedHeadersError:
                malformed += 1
                batch.bits[first_bit + (row >> 3)] &= ~(1 << (row & 7))
            row += 1
            self._row_ends.view[row] = self._sums[0]

    def _put(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        """Add the entries of one table."""
        key_bytes = sum(len(key) for key, _ in entries)
        value_bytes = sum(len(value) for _, value in entries if value is not None)
        self._make_room(len(entries), key_bytes, value_bytes)
        at, key_at, value_at = self._sums
        for key, value in entries:
            self._keys.view[key_at : key_at + len(key)] = key
            key_at += len(key)
            bit = 1 << (at & 7)
            if value is None:
                self._value_bits.view[at >> 3] &= ~bit & 0xFF
            else:
                self._value_bits.view[at >> 3] |= bit
                self._values.view[value_at : value_at + len(value)] = value
                value_at += len(value)
            at += 1
            self._key_ends.view[at], self._value_ends.view[at] = key_at, value_at
        self._sums = array("q", (at, key_at, value_at))

    def _make_room(self, entries: int, key_bytes: int, value_bytes: int) -> None:
        """Make sure that so much more can be added."""
        at, key_at, value_at = self._sums
        if at + entries >= len(self._key_ends.view):
            self._key_ends = self._key_ends.grown(at + 1, entries)
            self._value_ends = self._value_ends.grown(at + 1, entries)
            self._value_bits = self._value_bits.grown(at // 8 + 1, entries // 8 + 1)
        if key_at + key_bytes > len(self._keys.view):
            self._keys = self._keys.grown(key_at, key_bytes)
        if value_at + value_bytes > len(self._values.view):
            self._values = self._values.grown(value_at, value_bytes)

    def _array(self, validity: pa.Buffer, rows: int) -> pa.Array:
        entries, key_bytes, value_bytes = self._sums
        keys = pa.Array.from_buffers(
            self._entry_type.field(0).type,
            entries,
            [None, self._key_ends.part(0, entries + 1), self._keys.part(0, key_bytes)],
        )
        values = pa.Array.from_buffers(
            self._entry_type.field(1).type,
            entries,
            [
                self._value_bits.part(0, entries + 7 >> 3),
                self._value_ends.part(0, entries + 1),
                self._values.part(0, value_bytes),
            ],
        )
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(self._entry_type))
        return pa.Array.from_buffers(
            self._type, rows, [validity, self._row_ends.part(0, rows + 1)], children=[pairs]
        )
