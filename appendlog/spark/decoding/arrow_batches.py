"""Messages of a log as an Arrow record batch of a `RowSchema`.

Publishers repeat themselves: everything before the body (flags, route, properties) is
mostly the same bytes again. So a batch decodes each different such prefix once, makes
columns of those few rows, and spreads them over the messages with one `take`. Only cutting
the body off is done per message.

Two bounds keep the 32-bit positions inside an Arrow column safe, whatever the messages are:
`log_batches.BATCH_BYTES` (a batch ends once it holds that much, so it is at most that and one
message, which a log bounds to 1 GiB), and `headers.HEADERS_BYTES_MAX` for text that may be
longer than the bytes it was made of.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.spark.decoding.properties import PROPERTY_COLUMNS, PropertyValue, decode_properties
from appendlog.spark.schema.columns import COLUMNS, PARTITION, ROWS, TIMESTAMP_TYPE, RowSchema

_NANOSECONDS_PER_MICROSECOND: Final = 1000
_TYPES: Final = {column.name: column.arrow_type for column in COLUMNS}


class MalformedMessageError(ValueError):
    """A record whose CRC is right holds no message: another program wrote it.

    Attributes:
        offset: Of the record.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"the record at offset {offset} holds no message")
        self.offset = offset


class BatchBuilder:
    """Makes record batches of one queue's messages.

    Args:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        schema: Columns of the batches.

    Attributes:
        undecodable: Messages so far whose headers or properties are null because their bytes
            do not add up.
    """

    def __init__(self, vhost: str, queue: str, schema: RowSchema = ROWS) -> None:
        self.undecodable = 0
        self._schema = schema
        self._vhost = _clean(vhost)
        self._queue = _clean(queue)

    def build(
        self, offsets: Sequence[int], timestamps_ns: Sequence[int], messages: Sequence[bytes]
    ) -> pa.RecordBatch:
        """Return one batch, a row per message, in their order.

        Args:
            offsets: Of the messages.
            timestamps_ns: Append times; rounded down to microseconds.
            messages: As `appendlog.layout.message` draws them; bounded as said above. Not kept.

        Raises:
            MalformedMessageError: Bytes of a message end inside its route or properties.
        """
        rows, bodies, prefixes = _cut(offsets, messages)
        count = len(bodies)
        columns = self._prefix_columns(prefixes, rows)
        columns["value"] = pa.array(bodies, pa.binary())
        columns["offset"] = pa.array(offsets, pa.int64())
        microseconds = pc.divide(pa.array(timestamps_ns, pa.int64()), _NANOSECONDS_PER_MICROSECOND)
        columns["timestamp"] = microseconds.cast(_TYPES["timestamp"])
        constants: dict[str, str | int] = {
            "topic": self._queue,
            "vhost": self._vhost,
            "partition": PARTITION,
            "timestampType": TIMESTAMP_TYPE,
        }
        for name, constant in constants.items():
            columns[name] = pa.repeat(pa.scalar(constant, _TYPES[name]), count)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema.arrow
        )

    def _prefix_columns(self, prefixes: Sequence[bytes], rows: list[int]) -> dict[str, pa.Array]:
        """Decode each prefix once and spread the values over `rows` (indexes of prefixes)."""
        exchanges: list[str] = []
        keys: list[str] = []
        values: list[tuple[PropertyValue, ...]] = []
        headers = HeadersColumn()
        unreadable: set[int] = set()
        for row, prefix in enumerate(prefixes):
            key_at = 2 + prefix[1]
            properties_at = key_at + 5 + prefix[key_at]
            exchanges.append(prefix[2:key_at].decode("utf-8", "replace"))
            keys.append(prefix[key_at + 1 : properties_at - 4].decode("utf-8", "replace"))
            properties = decode_properties(prefix[properties_at:])
            values.append(properties.values)
            headers.add(properties.headers)
            if not properties.is_readable:
                unreadable.add(row)
        if unreadable:
            self.undecodable += sum(row in unreadable for row in rows)
        columns: dict[str, Sequence[PropertyValue]]
        by_property = zip(*values, strict=True) if values else ((),) * len(PROPERTY_COLUMNS)
        columns = dict(zip(PROPERTY_COLUMNS, by_property, strict=True))
        columns |= {"exchange": exchanges, "key": keys}
        del columns["headers"]
        arrays = {name: pa.array(column, _TYPES[name]) for name, column in columns.items()}
        arrays["headers"] = headers.array()
        if len(prefixes) == len(rows):
            return arrays
        indexes = pa.array(rows, pa.int32())
        return {name: array.take(indexes) for name, array in arrays.items()}


class HeadersColumn:
    """A map column under construction, flat: no Python object is kept per row or entry pair."""

    def __init__(self) -> None:
        self._starts: list[int | None] = []
        self._keys: list[str] = []
        self._values: list[str | None] = []

    def add(self, headers: dict[str, str | None] | None) -> None:
        """Add one row; None is a null, which is not the same as an empty map."""
        if headers is None:
            self._starts.append(None)
            return
        self._starts.append(len(self._keys))
        self._keys += headers
        self._values += headers.values()

    def array(self) -> pa.MapArray:
        """Return the column."""
        starts = pa.array([*self._starts, len(self._keys)], pa.int32())
        keys, values = pa.array(self._keys, pa.string()), pa.array(self._values, pa.string())
        return pa.MapArray.from_arrays(starts, keys, values)


def _cut(
    offsets: Sequence[int], messages: Sequence[bytes]
) -> tuple[list[int], list[bytes], list[bytes]]:
    """Return per message which prefix it has, its body, and all different prefixes."""
    rows: list[int] = []
    bodies: list[bytes] = []
    known: dict[bytes, int] = {}
    prefix = b""
    row = body_at = 0
    for offset, message in zip(offsets, messages, strict=True):
        # The prefix holds its own lengths, so a message that starts with it has exactly it.
        if not prefix or not message.startswith(prefix):
            body_at = _body_position(message, offset)
            prefix = message[:body_at]
            row = known.setdefault(prefix, len(known))
        rows.append(row)
        bodies.append(message[body_at:])
    return rows, bodies, list(known)


def _body_position(message: bytes, offset: int) -> int:
    try:
        at = 2 + message[1]
        at += 5 + message[at]
        at += int.from_bytes(message[at - 4 : at], "little")
    except IndexError as error:
        raise MalformedMessageError(offset) from error
    if at > len(message):
        raise MalformedMessageError(offset)
    return at


def _clean(name: str) -> str:
    """Replace what is not UTF-8: an Arrow string with it would fail late, inside the JVM."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
