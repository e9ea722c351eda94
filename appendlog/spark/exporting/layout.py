"""Names in an output: folders of queues, files of ranges, metadata of files.

    queue=<queue>/part-<start>-<end>.<kind>         20 digits each, [start, end)
    queue=<queue>/date=2026-11-21/hour=09/part-...  if the export has partitions by time
    queue=<queue>/region=eu/part-<start>-<end>-<n>.<kind>     by a field: siblings of one range
    _amqplog/<queue>/                               state of exports, see `manifests`

The number of a sibling keeps names apart where a file system sees no case: `EU` and `eu`.

Spark and Arrow ignore names that begin with `_`.
"""

import re
from typing import Final
from urllib.parse import unquote

from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import SCHEMA_VERSION
from metadata.name_texts import escaped_text
from metadata.names import encode_name

WORK_DIRECTORY: Final = "_amqplog"
DELTA_DIRECTORY: Final = "_delta_log"
"""Folder with the commits of a Delta table."""
ICEBERG_CATALOG: Final = "catalog.db"
"""SQLite file with the catalog of an Iceberg table."""

NULL_FOLDER_TEXT: Final = "__HIVE_DEFAULT_PARTITION__"
"""Text of a folder for null."""
FOLDER_BYTES_MAX: Final = 255

_PART_NAME: Final = re.compile(r"part-(\d{20})-(\d{20})(?:-\d+)?\.([a-z.]+)\Z")
# Characters that Spark escapes in the folder names of a partitioned table, and unescapes on reads.
_HIVE_UNSAFE: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^\udc80-\udcff]")


def part_name(
    start_offset: int, end_offset: int, extension: str = "parquet", sibling: int | None = None
) -> str:
    """Return the file name of a range of offsets.

    Args:
        start_offset: First offset.
        end_offset: End of the range, exclusive.
        extension: Extension, without the dot.
        sibling: Number of the file among those of the range; None if it is the only one.
    """
    number = "" if sibling is None else f"-{sibling:04d}"
    return f"part-{start_offset:020d}-{end_offset:020d}{number}.{extension}"


def part_range(name: str) -> tuple[int, int] | None:
    """Return the range of a file name; None if the name is no name of an exported file."""
    found = _PART_NAME.match(name)
    return (int(found[1]), int(found[2])) if found else None


def file_metadata(log: QueueLog) -> dict[str, str]:
    """Return the metadata of every file: the log that it comes from."""
    return {
        "amqplog.schema_version": str(SCHEMA_VERSION),
        "amqplog.vhost": escaped_text(log.vhost),
        "amqplog.queue": escaped_text(log.queue),
        "amqplog.incarnation": str(log.incarnation),
    }


def folder_name(queue: str) -> str:
    """Return the folder of a queue: `queue=<name>`, escaped as Spark escapes partitions."""
    folder = hive_folder("queue", queue)
    if len(folder.encode()) <= FOLDER_BYTES_MAX:
        return folder
    return f"queue={encode_name(queue)}"


def hive_folder(column: str, text: str | None) -> str:
    """Return the folder of a value, `column=<text>`, escaped as Spark escapes partitions."""
    # Bytes that are not UTF-8 become %FF; no other name has that, since `%` becomes %25.
    name = _HIVE_UNSAFE.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", text or "")
    return f"{column}={name or NULL_FOLDER_TEXT}"


def folder_value(folder: str) -> tuple[str, str | None]:
    """Return column and value of a folder that `hive_folder` has named for a text."""
    column, _, name = folder.partition("=")
    return column, None if name == NULL_FOLDER_TEXT else unquote(name)
