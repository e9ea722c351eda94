"""The reference decoder: messages of a log as an Arrow record batch of a `RowSchema`.

Publishers repeat themselves: everything before the body (the envelope: flags, route,
properties) is mostly the same bytes again. So a batch decodes each different envelope once,
makes columns of those few rows, and spreads them over the messages with one `take`. Only
cutting the body off is done per message.

Two bounds keep the 32-bit positions inside an Arrow column safe, whatever the messages are:
`log_batches.BATCH_BYTES` (a batch ends once it holds that much, so it is at most that and one
message, which a log bounds to 1 GiB), and `headers.HEADERS_BYTES_MAX` for text that may be
longer than the bytes it was made of.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import pyarrow as pa

from appendlog.segments.read_result import Records
from appendlog.spark.decoding.constants import ConstantColumns
from appendlog.spark.decoding.headers_columns import headers_column
from appendlog.spark.decoding.malformed import body_position
from appendlog.spark.decoding.properties import PROPERTY_COLUMNS, PropertyValue, decode_properties
from appendlog.spark.schema.columns import ROWS, RowSchema

_NANOSECONDS_PER_MICROSECOND: Final = 1000
_ROUTE: Final = frozenset({"exchange", "key"})
_FROM_ENVELOPE: Final = _ROUTE | {"envelope"} | set(PROPERTY_COLUMNS)
_FROM_MESSAGE: Final = _FROM_ENVELOPE | {"value"}


class BatchBuilder:
    """Makes record batches of one queue's messages. See `decoder.Decoder`.

    Args:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        schema: Columns of the batches; no others are made.

    Attributes:
        undecodable: Messages so far whose headers or properties are null because their bytes
            do not add up.
    """

    def __init__(self, vhost: str, queue: str, schema: RowSchema = ROWS) -> None:
        self.undecodable = 0
        self._schema = schema
        self._types = {column.name: column.arrow_type for column in schema.columns}
        self._constants = ConstantColumns(vhost, queue, self._types)

    def build(self, parts: Sequence[Records]) -> pa.RecordBatch:
        """Return one batch, a row per record, in their order. See `decoder.Decoder`.

        Raises:
            MalformedMessageError: Bytes of a message end inside its route or properties.
        """
        columns = self._constants.columns(sum(map(len, parts)))
        columns |= self._record_columns(parts)
        if not _FROM_MESSAGE.isdisjoint(self._types):
            columns |= self._message_columns(parts)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema.arrow
        )

    def _record_columns(self, parts: Sequence[Records]) -> dict[str, pa.Array]:
        """Return the columns for which no message is looked at."""
        columns: dict[str, pa.Array] = {}
        if "offset" in self._types:
            columns["offset"] = pa.array(_offsets(parts), pa.int64())
        times_ns = list(chain.from_iterable(part.timestamps_ns for part in parts))
        if "timestamp_ns" in self._types:
            columns["timestamp_ns"] = pa.array(times_ns, pa.int64())
        if "timestamp" in self._types:
            microseconds = [time_ns // _NANOSECONDS_PER_MICROSECOND for time_ns in times_ns]
            columns["timestamp"] = pa.array(microseconds, self._types["timestamp"])
        return columns

    def _message_columns(self, parts: Sequence[Records]) -> dict[str, pa.Array]:
        messages = list(chain.from_iterable(part.messages() for part in parts))
        rows, bodies, envelopes = _cut(_offsets(parts), messages)
        columns = {} if _FROM_ENVELOPE.isdisjoint(self._types) else self._spread(envelopes, rows)
        if "value" in self._types:
            columns["value"] = pa.array(bodies, pa.binary())
        return columns

    def _spread(self, envelopes: Sequence[bytes], rows: list[int]) -> dict[str, pa.Array]:
        """Decode each envelope once and spread the values over `rows` (indexes of envelopes)."""
        unreadable: set[int] = set()
        arrays: dict[str, pa.Array] = {}
        if "envelope" in self._types:
            arrays["envelope"] = pa.array(envelopes, pa.binary())
        if not _ROUTE.isdisjoint(self._types):
            arrays |= self._route_columns(envelopes)
        if not self._types.keys().isdisjoint(PROPERTY_COLUMNS):
            arrays |= self._property_columns(envelopes, unreadable)
        self.undecodable += sum(row in unreadable for row in rows) if unreadable else 0
        if len(envelopes) == len(rows):
            return arrays
        indexes = pa.array(rows, pa.int32())
        return {name: array.take(indexes) for name, array in arrays.items()}

    def _route_columns(self, envelopes: Sequence[bytes]) -> dict[str, pa.Array]:
        exchanges, keys = [], []
        for envelope in envelopes:
            key_at = 2 + envelope[1]
            key_end = key_at + 1 + envelope[key_at]
            exchanges.append(envelope[2:key_at])
            keys.append(envelope[key_at + 1 : key_end])
        columns = {"exchange": exchanges, "key": keys}
        return {
            name: pa.array(self._texts(name, values), self._types[name])
            for name, values in columns.items()
            if name in self._types
        }

    def _texts(self, name: str, values: list[bytes]) -> Sequence[str | bytes]:
        """Return what is not UTF-8 with U+FFFD in its place, for a column of text."""
        if pa.types.is_binary(self._types[name]):
            return values
        return [value.decode("utf-8", "replace") for value in values]

    def _property_columns(
        self, envelopes: Sequence[bytes], unreadable: set[int]
    ) -> dict[str, pa.Array]:
        """Return the columns of properties; add the rows that do not add up to `unreadable`."""
        values: list[tuple[PropertyValue, ...]] = []
        headers = headers_column(self._types["headers"]) if "headers" in self._types else None
        for row, envelope in enumerate(envelopes):
            key_at = 2 + envelope[1]
            properties = decode_properties(envelope[key_at + 5 + envelope[key_at] :])
            values.append(properties.values)
            is_whole = headers is None or headers.add(properties.table)
            if not (properties.is_readable and is_whole):
                unreadable.add(row)
        by_property = zip(*values, strict=True) if values else ((),) * len(PROPERTY_COLUMNS)
        arrays = {
            name: pa.array(column, self._types[name])
            for name, column in zip(PROPERTY_COLUMNS, by_property, strict=True)
            if name in self._types and name != "headers"
        }
        if headers is not None:
            arrays["headers"] = headers.array()
        return arrays


def _offsets(parts: Sequence[Records]) -> list[int]:
    return list(chain.from_iterable(part.offsets for part in parts))


def _cut(
    offsets: Sequence[int], messages: Sequence[bytes]
) -> tuple[list[int], list[bytes], list[bytes]]:
    """Return per message which envelope it has, its body, and all different envelopes."""
    rows: list[int] = []
    bodies: list[bytes] = []
    known: dict[bytes, int] = {}
    envelope = b""
    row = body_at = 0
    for offset, message in zip(offsets, messages, strict=True):
        # An envelope holds its own lengths, so a message that starts with it has exactly it.
        if not envelope or not message.startswith(envelope):
            body_at = body_position(message, offset)
            envelope = message[:body_at]
            row = known.setdefault(envelope, len(known))
        rows.append(row)
        bodies.append(message[body_at:])
    return rows, bodies, list(known)
