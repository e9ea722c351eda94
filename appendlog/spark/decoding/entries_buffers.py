"""Makes columns of headers as maps, or as lists of pairs."""

from array import array
from collections.abc import Callable

import pyarrow as pa

from appendlog.layout.columns import TablesKernel
from appendlog.spark.decoding.headers_buffers import ENTRIES_OF_TABLE, VALUES_GROWTH, HeadersBuffers

Entries = list[tuple[bytes, bytes | None]]
"""Keys and values of one headers table; None is a null."""


class EntriesBuffers(HeadersBuffers):
    """Makes a column of headers, batch after batch, as entries of a key and a value.

    Args:
        kernel: Kernel to use.
        form: Form of the values: TEXT_VALUES or RAW_VALUES.
        decode: Makes the entries of a table that the kernel leaves to the caller, and of the
            octets in it that cannot be decoded; raises MalformedHeadersError.
        arrow_type: Type of the column: a map, or a list of structures of a key and a value.
    """

    def __init__(
        self,
        kernel: TablesKernel,
        form: int,
        decode: Callable[[bytes, bytes], Entries],
        arrow_type: pa.DataType,
    ) -> None:
        super().__init__(kernel, form, arrow_type)
        self._decode = decode
        self._entry_type = arrow_type.field(0).type

    def _put(self, table: bytes, malformed: bytes = b"") -> None:
        entries = self._decode(table, malformed)
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

    def _make_room_for(self, table_bytes: int) -> None:
        self._make_room(ENTRIES_OF_TABLE, table_bytes, VALUES_GROWTH * table_bytes + 2)

    def _row_end(self) -> int:
        return self._sums[0]

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
