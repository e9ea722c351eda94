"""Describes files for commits to a Delta table: places and statistics."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from appendlog.spark.exporting.tables.table_files import TableFile
from appendlog.spark.exporting.tables.table_names import lake_module
from appendlog.spark.planning.queues import QueueLog
from metadata.name_texts import replaced_text

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

STATISTICS: Final = "topic,vhost,offset,timestamp"
"""Columns with statistics, by which readers skip files; others would only cost time. They are never
null."""


def add_action(file: TableFile, log: QueueLog) -> "AddAction":
    """Return the action that adds a file to a table.

    Args:
        file: File in the table's directory, whole and durable.
        log: Queue whose messages the file holds.
    """
    return lake_module("deltalake.transaction").AddAction(  # type: ignore[no-any-return]
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=int(datetime.now(UTC).timestamp() * 1000),
        data_change=True,
        stats=json.dumps(_statistics(file, log)),
    )


def _statistics(file: TableFile, log: QueueLog) -> dict[str, Any]:
    names = {"topic": replaced_text(log.queue), "vhost": replaced_text(log.vhost)}
    first_us, last_us = file.timestamps_us
    # Rounded up: some readers ignore that milliseconds cut off the rest.
    low = names | {"offset": file.offsets[0], "timestamp": _milliseconds(first_us)}
    high = names | {"offset": file.offsets[1] - 1, "timestamp": _milliseconds(last_us + 999)}
    return {
        "numRecords": file.rows,
        "minValues": low,
        "maxValues": high,
        "nullCount": dict.fromkeys(low, 0),
    }


def _milliseconds(time_us: int) -> str:
    time = datetime.fromtimestamp(time_us // 1_000_000, UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time_us // 1000 % 1000:03}Z"
