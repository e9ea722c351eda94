"""Names in an output: folders of queues, files of ranges, metadata of files.

    queue=<queue>/part-<start>-<end>.<kind>         20 digits each, [start, end)
    queue=<queue>/date=2026-11-21/hour=09/part-...  if the export has partitions
    _amqplog/<queue>/                               state of exports, see `manifests`

Spark and Arrow ignore names that begin with `_`.
"""

import re
from typing import Final

from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import SCHEMA_VERSION
from metadata.name_texts import escaped_text
from metadata.names import encode_name

WORK_DIRECTORY: Final = "_amqplog"
DELTA_DIRECTORY: Final = "_delta_log"
"""Folder with the commits of a Delta table."""
ICEBERG_CATALOG: Final = "catalog.db"
"""SQLite file with the catalog of an Iceberg table."""

_PART_NAME: Final = re.compile(r"part-(\d{20})-(\d{20})\.([a-z.]+)\Z")
# Characters that Spark escapes in the folder names of a partitioned table, and unescapes on reads.
_HIVE_UNSAFE: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^\udc80-\udcff]")
_FOLDER_BYTES_MAX: Final = 255


def part_name(start_offset: int, end_offset: int, extension: str = "parquet") -> str:
    """Return the file name of a range of offsets."""
    return f"part-{start_offset:020d}-{end_offset:020d}.{extension}"


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
    # Bytes that are not UTF-8 become %FF; no other name has that, since `%` becomes %25.
    name = _HIVE_UNSAFE.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", queue)
    folder = f"queue={name or '__HIVE_DEFAULT_PARTITION__'}"
    if len(folder.encode()) <= _FOLDER_BYTES_MAX:
        return folder
    return f"queue={encode_name(queue)}"
