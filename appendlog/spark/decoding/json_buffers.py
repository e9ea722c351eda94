"""Makes columns of headers as JSON."""

from array import array

import pyarrow as pa

from appendlog.layout.columns import JSON_TEXT, TablesKernel
from appendlog.layout.headers_json import headers_as_json
from appendlog.spark.decoding.headers_buffers import ENTRIES_OF_TABLE, VALUES_GROWTH, HeadersBuffers


class JsonBuffers(HeadersBuffers):
    """Makes a column of headers, batch after batch, as JSON text.

    Args:
        kernel: Kernel to use.
    """

    def __init__(self, kernel: TablesKernel) -> None:
        super().__init__(kernel, JSON_TEXT, pa.string())

    def _put(self, table: bytes, malformed: bytes = b"") -> None:
        text = headers_as_json(table, malformed).encode()
        _, _, at = self._sums
        self._make_room(0, 0, len(text))
        self._values.view[at : at + len(text)] = text
        self._sums = array("q", (0, 0, at + len(text)))

    def _make_room_for(self, table_bytes: int) -> None:
        self._make_room(ENTRIES_OF_TABLE, table_bytes, VALUES_GROWTH * table_bytes + 2)

    def _row_end(self) -> int:
        return self._sums[2]

    def _array(self, validity: pa.Buffer, rows: int) -> pa.Array:
        values = self._values.part(0, self._sums[2])
        return pa.Array.from_buffers(
            self._type, rows, [validity, self._row_ends.part(0, rows + 1), values]
        )
