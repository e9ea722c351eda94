"""Decodes records into Arrow record batches: the columns kernel, and Arrow over its buffers.

The kernel has one source, compiled or interpreted (`appendlog.layout.columns`). Both builds make
the same batches byte for byte; `tests/parity/test_columns_parity.py` checks it. Beside the kernel,
a batch costs a few calls for each column. Bytes of messages are copied once, into the columns that
were asked for.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from appendlog.layout.columns import (
    ENVELOPE,
    EXCHANGE,
    KERNELS,
    KEY,
    PROPERTIES,
    RAW_VALUES,
    TEXT_VALUES,
    VALUE,
    Kernels,
)
from appendlog.layout.headers import decode_headers, decode_raw_headers
from appendlog.segments.read_result import Records
from appendlog.spark.decoding.column_buffers import ColumnBuffer
from appendlog.spark.decoding.constants import ConstantColumns
from appendlog.spark.decoding.entries_buffers import Entries, EntriesBuffers
from appendlog.spark.decoding.found_fields import DELIVERY_MODE, PRIORITY, TIMESTAMP, FoundFields
from appendlog.spark.decoding.headers_buffers import HeadersBuffers
from appendlog.spark.decoding.json_buffers import JsonBuffers
from appendlog.spark.schema.columns import ROWS, RowSchema

PROPERTY_COLUMNS: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "message_timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""Columns of properties in the order of the flag bits from 15 down; class basic of AMQP 0-9-1."""

_NUMBERS: Final = {
    "delivery_mode": DELIVERY_MODE,
    "priority": PRIORITY,
    "message_timestamp": TIMESTAMP,
    "message_timestamp_raw": TIMESTAMP,
}
_FIELDS: Final = {
    "exchange": EXCHANGE,
    "key": KEY,
    "envelope": ENVELOPE,
    "value": VALUE,
} | {name: PROPERTIES + n for n, name in enumerate(PROPERTY_COLUMNS) if name not in _NUMBERS}
_RECORD_COLUMNS: Final = frozenset({"offset", "timestamp", "timestamp_ns"})


class KernelDecoder:
    """Makes record batches of one queue's messages; for one thread.

    Args:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        schema: Columns of the batches; a column that is not among them costs nothing.
        kernels: Build of the kernels to use.

    Attributes:
        undecodable: Messages so far with malformed bytes: those of the property list, if a
            property is asked for, which is null then; those of the headers table, if the headers
            are, which have `MALFORMED_KEY` then.
    """

    def __init__(
        self, vhost: str, queue: str, schema: RowSchema = ROWS, kernels: Kernels = KERNELS
    ) -> None:
        self.undecodable = 0
        self._kernels = kernels
        self._names = schema.names
        self._schema = schema.arrow
        self._types = types = {column.name: column.arrow_type for column in schema.columns}
        self._constants = ConstantColumns(vhost, queue, types)
        self._slots = {name: slot for slot, name in enumerate(n for n in types if n in _FIELDS)}
        self._numbers = [name for name in types if name in _NUMBERS]
        self._found = FoundFields(
            kernels.columns,
            [_FIELDS[name] for name in self._slots],
            [pa.types.is_string(types[name]) and name != "headers" for name in self._slots],
            bool(self._numbers),
        )
        self._headers = self._headers_of(types["headers"]) if "headers" in types else None

    def build(self, parts: Sequence[Records]) -> pa.RecordBatch:
        """Return one batch: a row per record, in their order.

        Args:
            parts: Records as a read of the log returns them: together at most
                `log_batches.BATCH_BYTES` and one message; may be empty. Not kept.

        Raises:
            MalformedMessageError: Bytes of a message end inside its route or properties. Raised
                only if a column is asked for that is made from messages.
        """
        rows = sum(map(len, parts))
        columns = self._constants.columns(rows)
        for name in _RECORD_COLUMNS.intersection(self._types):
            columns[name] = self._record_column(name, parts, rows)
        if self._slots or self._numbers:
            self._add_message_columns(columns, parts, rows)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self._schema
        )

    def _headers_of(self, form: pa.DataType) -> HeadersBuffers | None:
        """Return the maker of the headers column; None if the column has the tables' bytes."""
        if pa.types.is_binary(form):
            return None
        if pa.types.is_string(form):
            return JsonBuffers(self._kernels.tables)
        if pa.types.is_map(form):
            return EntriesBuffers(self._kernels.tables, TEXT_VALUES, _text_entries, form)
        return EntriesBuffers(self._kernels.tables, RAW_VALUES, _raw_entries, form)

    def _record_column(self, name: str, parts: Sequence[Records], rows: int) -> pa.Array:
        """Return a column that needs no look at messages."""
        buffer = ColumnBuffer(rows, "q")
        at = 0
        for part in parts:
            count = len(part)
            if name == "timestamp":
                self._kernels.columns.fill_microseconds(buffer.view, at, part.timestamps_ns)
            elif name == "timestamp_ns":
                buffer.view[at : at + count] = part.timestamps_ns
            elif isinstance(part.offsets, range):
                self._kernels.columns.fill_range(buffer.view, at, part.offsets.start, count)
            else:
                buffer.view[at : at + count] = array("q", part.offsets)
            at += count
        return pa.Array.from_buffers(self._types[name], rows, [None, buffer.part(0, rows)])

    def _add_message_columns(
        self, columns: dict[str, pa.Array], parts: Sequence[Records], rows: int
    ) -> None:
        found = self._found
        self.undecodable += found.find(parts, rows)
        for name, slot in self._slots.items():
            if name == "headers" and self._headers is not None:
                columns[name], malformed = self._headers.column(found, slot, rows)
                self.undecodable += malformed
            else:
                columns[name] = found.bytes_column(slot, self._types[name])
        for name in self._numbers:
            columns[name] = found.number_column(_NUMBERS[name], self._types[name])


def _text_entries(table: bytes, malformed: bytes) -> Entries:
    return [
        (key.encode(), None if value is None else value.encode())
        for key, value in decode_headers(table, malformed).items()
    ]


def _raw_entries(table: bytes, malformed: bytes) -> Entries:
    return [(key.encode(), value) for key, value in decode_raw_headers(table, malformed)]
