"""The oracle: a plain Python reader of a log, one message after the other.

It shares the log's reader with the export, but not a line of what turns messages into rows:
properties and tables are decoded by the server's own protocol code.
"""

import base64
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from amqp_server.protocol.field_values import DecimalValue, FieldValue, Table
from amqp_server.protocol.properties import decode_properties
from appendlog.layout.message import decode_message
from appendlog.reader import LogReader
from appendlog.spark.planning.queues import QueueLog

Row = dict[str, Any]


def expected_rows(log: QueueLog, start: int | None = None, end: int | None = None) -> list[Row]:
    """Return the rows of a log, timestamps as microseconds."""
    reader = LogReader(log.directory)
    try:
        return [
            _row(log, offset, timestamp_ns, message)
            for batch in reader.read(start, end)
            for offset, timestamp_ns, message in zip(
                batch.offsets, batch.timestamps_ns, batch.messages, strict=True
            )
        ]
    finally:
        reader.close()


def _row(log: QueueLog, offset: int, timestamp_ns: int, message: bytes) -> Row:
    view = decode_message(message)
    properties = decode_properties(view.properties)
    seconds = properties.timestamp
    return {
        "key": view.routing_key.decode("utf-8", "replace"),
        "value": view.body,
        "topic": log.queue,
        "partition": 0,
        "offset": offset,
        "timestamp": timestamp_ns // 1000,
        "timestampType": 1,
        "exchange": view.exchange.decode("utf-8", "replace"),
        "vhost": log.vhost,
        "content_type": clean(properties.content_type),
        "content_encoding": clean(properties.content_encoding),
        "delivery_mode": properties.delivery_mode,
        "priority": properties.priority,
        "correlation_id": clean(properties.correlation_id),
        "reply_to": clean(properties.reply_to),
        "expiration": clean(properties.expiration),
        "message_id": clean(properties.message_id),
        "message_timestamp": message_time_us(seconds),
        "type": clean(properties.type),
        "user_id": clean(properties.user_id),
        "app_id": clean(properties.app_id),
        "cluster_id": clean(properties.cluster_id),
        "headers": None if properties.headers is None else header_texts(properties.headers),
        "envelope": message[: len(message) - len(view.body)],
        "message_timestamp_raw": seconds if seconds is None or seconds < 2**63 else seconds - 2**64,
    }


def message_time_us(seconds: int | None) -> int | None:
    """Return the time of a property `timestamp` in microseconds; None if Python has none."""
    last_day = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
    return None if seconds is None or seconds >= last_day else seconds * 1_000_000


def clean(text: str | None) -> str | None:
    """Replace the bytes that were not UTF-8."""
    return text and text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def header_texts(table: Table) -> dict[str, str | None]:
    """Return a table as the export shows it."""
    texts: dict[str, str | None] = {}
    for key, field in table.items():
        match plain(field):
            case None as value:
                texts[str(clean(key))] = value
            case str(text):
                texts[str(clean(key))] = text
            case bool(flag):
                texts[str(clean(key))] = str(flag).lower()
            case int() | float() as number:
                texts[str(clean(key))] = repr(number)
            case nested:
                texts[str(clean(key))] = json.dumps(
                    nested, ensure_ascii=False, separators=(",", ":")
                )
    return texts


def plain(field: FieldValue) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return a field value as JSON can hold it."""
    match field:
        case FieldValue(b"S", bytes(raw)):
            try:
                return raw.decode("utf-8")
            except UnicodeDecodeError:
                return base64.b64encode(raw).decode("ascii")
        case FieldValue(b"x", bytes(raw)):
            return base64.b64encode(raw).decode("ascii")
        case FieldValue(b"D", DecimalValue(scale, unscaled)):
            return _decimal_text(scale, unscaled)
        case FieldValue(_, float(number)) if not math.isfinite(number):
            return "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"
        case FieldValue(b"A", list(items)):
            return [plain(item) for item in items]
        case FieldValue(b"F", dict(entries)):
            return {clean(key): plain(entry) for key, entry in entries.items()}
        case _:
            return field.value


def _decimal_text(scale: int, unscaled: int) -> str:
    """Write a decimal as Java's BigDecimal does (and Python's Decimal)."""
    digits, sign = str(abs(unscaled)), "-" * (unscaled < 0)
    exponent = len(digits) - 1 - scale
    if exponent < -6:
        point = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}E{exponent}"
    if scale == 0:
        return sign + digits
    padded = digits.rjust(scale + 1, "0")
    return f"{sign}{padded[:-scale]}.{padded[-scale:]}"


def written_rows(out: Path) -> list[Row]:
    """Return the rows of all files of an output, in the order of offsets."""
    rows = [row for path in sorted(out.rglob("*.parquet")) for row in file_rows(path)]
    return sorted(rows, key=lambda row: int(row["offset"]))


def file_rows(path: Path) -> list[Row]:
    """Return the rows of one file, timestamps as microseconds."""
    # Not read_table: it would add the folder's name as a column.
    return table_rows(pq.ParquetFile(path).read())


def table_rows(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """Return the rows of Arrow data, timestamps as microseconds and maps as dicts."""
    columns = {
        name: _column_values(column)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _column_values(column: pa.ChunkedArray | pa.Array) -> Sequence[Any]:
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_map(column.type):
        return [None if entry is None else dict(entry) for entry in column.to_pylist()]
    return list(column.to_pylist())
