"""The oracle of the decoder: one message after the other, a column from Python values.

It cuts messages and properties itself. Headers come from `appendlog.layout.headers` and
`appendlog.layout.headers_json`, which other tests compare with the server's own decoder.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from appendlog.layout.headers import (
    MalformedHeadersError,
    decode_headers,
    decode_raw_headers,
    split_headers,
)
from appendlog.layout.headers_json import headers_as_json
from appendlog.layout.message import decode_message
from appendlog.segments.read_result import Records
from appendlog.spark.decoding.kernel_decoder import PROPERTY_COLUMNS
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.schema.columns import ROWS, RowSchema
from tests.spark.plain_reader import message_time_us

FROM_RECORD: Final = {
    "topic",
    "vhost",
    "partition",
    "timestampType",
    "offset",
    "timestamp",
    "timestamp_ns",
}
ABSENT: Final = dict.fromkeys([*PROPERTY_COLUMNS, "message_timestamp_raw"])


class ReferenceDecoder:
    """Makes record batches of one queue's messages, slowly.

    Args:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        schema: Columns of the batches.

    Attributes:
        undecodable: Messages so far with properties or headers that do not add up, where these
            are among the columns.
    """

    def __init__(self, vhost: str, queue: str, schema: RowSchema = ROWS) -> None:
        self.undecodable = 0
        self._schema = schema
        self._types = {column.name: column.arrow_type for column in schema.columns}
        self._names = {"vhost": vhost, "topic": queue, "partition": 0, "timestampType": 1}
        self._has_properties = not self._types.keys().isdisjoint(ABSENT)

    def build(self, parts: Sequence[Records]) -> pa.RecordBatch:
        """Return one batch, a row per record.

        Raises:
            MalformedMessageError: A record is no message, and a column is made from messages.
        """
        rows = [
            self._row(offset, time_ns, message)
            for part in parts
            for offset, time_ns, message in zip(
                part.offsets, part.timestamps_ns, part.messages(), strict=True
            )
        ]
        arrays = [pa.array([row[name] for row in rows], self._types[name]) for name in self._types]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _row(self, offset: int, time_ns: int, message: bytes) -> dict[str, Any]:
        row = self._names | {
            "offset": offset,
            "timestamp": time_ns // 1000,
            "timestamp_ns": time_ns,
        }
        if self._types.keys() <= FROM_RECORD:
            return row
        try:
            view = decode_message(message)
        except ValueError:
            raise MalformedMessageError(offset) from None
        row |= {
            "exchange": view.exchange.decode("utf-8", "replace"),
            "key": view.routing_key,
            "value": view.body,
            "envelope": message[: len(message) - len(view.body)],
        }
        if self._types.get("key") == pa.string():
            row["key"] = view.routing_key.decode("utf-8", "replace")
        return row | self._properties(view.properties) if self._has_properties else row

    def _properties(self, data: bytes) -> dict[str, Any]:
        try:
            values = property_values(data)
        except (IndexError, ValueError):
            self.undecodable += 1
            return ABSENT
        table = values["headers"]
        if table is not None and "headers" in self._types:
            try:
                values["headers"] = headers_form(self._types["headers"])(table)
            except MalformedHeadersError:
                self.undecodable += 1
                values["headers"] = headers_form(self._types["headers"])(*split_headers(table))
        return values


def headers_form(arrow_type: pa.DataType) -> Callable[..., Any]:
    """Return what makes a value of a headers column from a table, and from what is not readable."""
    if pa.types.is_binary(arrow_type):
        return bytes
    if pa.types.is_string(arrow_type):
        return headers_as_json
    if pa.types.is_map(arrow_type):
        return lambda *table: list(decode_headers(*table).items())
    return lambda *table: [
        {"key": key, "value": value} for key, value in decode_raw_headers(*table)
    ]


def property_values(data: bytes) -> dict[str, Any]:
    """Return the values of a property list, by column; of the headers the table, unread.

    Source: AMQP 0-9-1, section 4.2.6.1.

    Raises:
        IndexError: The list ends inside a value.
        ValueError: There are more bytes than the flags announce, or fewer, or an unknown flag.
    """
    values: dict[str, Any] = dict(ABSENT)
    if not data:
        return values
    words = [data[0] << 8 | data[1]]
    position = 2
    while words[-1] & 1:
        words.append(data[position] << 8 | data[position + 1])
        position += 2
    if words[0] & 2 or any(word & ~1 for word in words[1:]):
        raise ValueError("a property that AMQP does not have")
    for bit, name in enumerate(PROPERTY_COLUMNS):
        if not words[0] & 0x8000 >> bit:
            continue
        size = {"delivery_mode": 1, "priority": 1, "message_timestamp": 8}.get(name)
        if size is None:
            length_bytes = 4 if name == "headers" else 1
            size = int.from_bytes(data[position : position + length_bytes], "big")
            position += length_bytes
        raw = data[position : position + size]
        position += size
        if name == "headers":
            values[name] = raw
        elif name == "message_timestamp":
            values["message_timestamp_raw"] = int.from_bytes(raw, "big", signed=True)
            values[name] = message_time_us(int.from_bytes(raw, "big"))
        elif name in ("delivery_mode", "priority"):
            values[name] = int.from_bytes(raw, "big")
        else:
            values[name] = raw.decode("utf-8", "replace")
    if position != len(data):
        raise ValueError(f"values end at {position} of {len(data)} bytes")
    return values
