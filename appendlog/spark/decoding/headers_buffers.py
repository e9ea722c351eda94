"""Builds a column of headers in flat buffers that grow.

The kernel decodes most tables; `_put` decodes the rare ones, one table at a time.
"""

from abc import ABC, abstractmethod
from array import array
from typing import Final

import pyarrow as pa

from appendlog.layout.columns import TABLES_DONE, TABLES_FULL, ReadableBuffer, TablesKernel
from appendlog.layout.headers import MalformedHeadersError, split_headers
from appendlog.spark.decoding.column_buffers import ColumnBuffer
from appendlog.spark.decoding.found_fields import FoundFields

ENTRIES_OF_TABLE: Final = 64
"""Most entries of a table that the kernel decodes."""
VALUES_GROWTH: Final = 6
"""Most octets of JSON for an octet of a table; a whole table has two more."""
_ENTRIES: Final = 4096
_BYTES: Final = 64 << 10


class HeadersBuffers(ABC):
    """Makes a column of headers, batch after batch.

    Args:
        kernel: Kernel to use.
        form: Form of the values: TEXT_VALUES, RAW_VALUES or JSON_TEXT.
        arrow_type: Type of the column.
    """

    def __init__(self, kernel: TablesKernel, form: int, arrow_type: pa.DataType) -> None:
        self._kernel = kernel
        self._form = form
        self._type = arrow_type
        # Entries, octets of keys and octets of values of the last batch; at first a guess.
        self._sums = array("q", (_ENTRIES, _BYTES, _BYTES))

    def column(
        self,
        batch: FoundFields,
        slot: int,
        rows: int,
    ) -> tuple[pa.Array, int]:
        """Return the column, and the number of malformed tables in it.

        Args:
            batch: Fields that were found in the messages.
            slot: Slot of the headers.
            rows: Number of rows of the batch.
        """
        self._begin(rows)
        row = malformed = 0
        for data, count in batch.pieces:
            malformed += self._add(batch, slot, data, row, row + count)
            row += count
        return self._array(batch.validity(slot), rows), malformed

    def _begin(self, rows: int) -> None:
        """Make room for as much as the last batch had, and an eighth more."""
        entries, key_bytes, value_bytes = (size + size // 8 for size in self._sums)
        self._sums = array("q", (0, 0, 0))
        self._row_ends = ColumnBuffer(rows + 1, "i")
        self._row_ends.view[0] = 0
        self._make_buffers(entries + ENTRIES_OF_TABLE, key_bytes, value_bytes)

    def _make_buffers(self, entries: int, key_bytes: int, value_bytes: int) -> None:
        self._keys = ColumnBuffer(key_bytes, "B")
        self._values = ColumnBuffer(value_bytes, "B")
        self._key_ends, self._value_ends = (ColumnBuffer(entries + 1, "i") for _ in range(2))
        self._key_ends.view[0] = self._value_ends.view[0] = 0
        self._value_bits = ColumnBuffer(entries // 8 + 1, "B")

    def _add(
        self, batch: FoundFields, slot: int, data: ReadableBuffer, row: int, until_row: int
    ) -> int:
        """Add the tables of rows that lie in one buffer; return how many are malformed."""
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
                self._make_room_for(size)
                continue
            table = bytes(data[start : start + size])
            try:
                self._put(table)
            except MalformedHeadersError:
                malformed += 1
                self._put(*split_headers(table))
            row += 1
            self._row_ends.view[row] = self._row_end()

    def _make_room(self, entries: int, key_bytes: int, value_bytes: int) -> None:
        """Grow the buffers until this much more fits."""
        at, key_at, value_at = self._sums
        if at + entries >= len(self._key_ends.view):
            self._key_ends = self._key_ends.grown(at + 1, entries)
            self._value_ends = self._value_ends.grown(at + 1, entries)
            self._value_bits = self._value_bits.grown(at // 8 + 1, entries // 8 + 1)
        if key_at + key_bytes > len(self._keys.view):
            self._keys = self._keys.grown(key_at, key_bytes)
        if value_at + value_bytes > len(self._values.view):
            self._values = self._values.grown(value_at, value_bytes)

    @abstractmethod
    def _put(self, table: bytes, malformed: bytes = b"") -> None:
        """Add a table that the kernel has left to the caller.

        Args:
            table: Octets after the table's length.
            malformed: Those behind them that cannot be decoded.

        Raises:
            MalformedHeadersError: The table is malformed; nothing was added.
        """

    @abstractmethod
    def _make_room_for(self, table_bytes: int) -> None:
        """Grow the buffers until the kernel can add a table of this size."""

    @abstractmethod
    def _row_end(self) -> int:
        """Return the end of the rows that are in the column so far."""

    @abstractmethod
    def _array(self, validity: pa.Buffer, rows: int) -> pa.Array:
        """Return the column."""
