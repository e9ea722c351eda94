"""The decoder where nothing of ours is compiled: columns from vectors of boundaries.

No loop over messages, and no Python object for one, but for what is rare: a header that is a
table, text that is not UTF-8, flags that nobody sets.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from appendlog.segments.read_result import Records
from appendlog.spark.decoding.constants import ConstantColumns
from appendlog.spark.decoding.message_places import (
    Envelopes,
    Fields,
    Messages,
    envelopes_of,
    messages_of,
    property_fields,
)
from appendlog.spark.decoding.octets import inside, network_u64_at, u8_at
from appendlog.spark.decoding.picked_fields import picked_column
from appendlog.spark.decoding.properties import PROPERTY_COLUMNS, TIMESTAMP_SECONDS_MAX
from appendlog.spark.decoding.table_lanes import tables_column
from appendlog.spark.schema.columns import ROWS, RowSchema

_FROM_MESSAGE: Final = frozenset({"exchange", "key", "envelope", "value", *PROPERTY_COLUMNS})
_MICROSECONDS_PER_SECOND: Final = 1_000_000
_NANOSECONDS_PER_MICROSECOND: Final = 1000


class NumpyDecoder:
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
        self._names = schema.names
        self._schema = schema.arrow
        self._types = {column.name: column.arrow_type for column in schema.columns}
        self._constants = ConstantColumns(vhost, queue, self._types)

    def build(self, parts: Sequence[Records]) -> pa.RecordBatch:
        """Return one batch, a row per record, in their order. See `decoder.Decoder`.

        Raises:
            MalformedMessageError: Bytes of a message end inside its route or properties.
        """
        if not parts:
            nothing = [pa.array([], kind) for kind in self._types.values()]
            return pa.RecordBatch.from_arrays(nothing, schema=self._schema)
        columns = self._constants.columns(sum(map(len, parts)))
        columns |= self._record_columns(parts)
        if not _FROM_MESSAGE.isdisjoint(self._types):
            columns |= self._message_columns(parts)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._names], schema=self._schema
        )

    def _record_columns(self, parts: Sequence[Records]) -> dict[str, pa.Array]:
        """Return the columns for which no message is looked at."""
        offsets = [np.asarray(part.offsets, np.int64) for part in parts]
        times_ns = np.concatenate([np.frombuffer(part.timestamps_ns, np.int64) for part in parts])
        made = {
            "offset": np.concatenate(offsets),
            "timestamp_ns": times_ns,
            "timestamp": times_ns // _NANOSECONDS_PER_MICROSECOND,
        }
        return {
            name: pa.array(numbers, pa.int64()).cast(self._types[name])
            for name, numbers in made.items()
            if name in self._types
        }

    def _message_columns(self, parts: Sequence[Records]) -> dict[str, pa.Array]:
        messages = messages_of(parts)
        envelopes = envelopes_of(messages, parts)
        octets, starts, stops = messages
        bounds = {
            "value": (envelopes.bodies, stops),
            "envelope": (starts, envelopes.bodies),
            "exchange": (starts + 2, envelopes.exchange_stops),
            "key": (envelopes.key_starts, envelopes.key_stops),
        }
        columns = {
            name: picked_column(self._types[name], octets, *bounds[name])
            for name in bounds.keys() & self._types.keys()
        }
        if not self._types.keys().isdisjoint(PROPERTY_COLUMNS):
            columns |= self._property_columns(messages, envelopes)
        return columns

    def _property_columns(self, messages: Messages, envelopes: Envelopes) -> dict[str, pa.Array]:
        fields, is_readable = property_fields(messages, envelopes)
        self.undecodable += len(is_readable) - int(is_readable.sum())
        columns: dict[str, pa.Array] = {}
        for name in self._types.keys() & set(PROPERTY_COLUMNS):
            if name not in fields:
                columns[name] = pa.nulls(len(is_readable), self._types[name])
            elif name == "headers":
                columns[name], unreadable = tables_column(messages, fields[name], self._types[name])
                self.undecodable += unreadable
            else:
                columns[name] = _property_column(messages, name, fields[name], self._types[name])
        return columns


def _property_column(
    messages: Messages, name: str, fields: Fields, arrow_type: pa.DataType
) -> pa.Array:
    has, starts, stops = fields
    if name == "message_timestamp":
        seconds = network_u64_at(messages.octets, inside(messages.octets, starts, 8))
        has = has & (seconds <= TIMESTAMP_SECONDS_MAX)
        microseconds = np.where(has, seconds, 0).astype(np.int64) * _MICROSECONDS_PER_SECOND
        return pa.array(microseconds, pa.int64(), mask=~has).cast(arrow_type)
    if pa.types.is_integer(arrow_type):
        return pa.array(u8_at(messages.octets, starts), arrow_type, mask=~has)
    is_present = None if has.all() else has
    return picked_column(arrow_type, messages.octets, starts, stops, is_present)
