"""Describes exported files for a table: places, offsets and times."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from appendlog.spark.exporting.destination import CorruptRange, ExportJob, WrittenFile
from appendlog.spark.exporting.layout import folder_value
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range, offsets_in
from appendlog.spark.schema.columns import SCHEMA_VERSION
from metadata.name_texts import replaced_text

DATA_FOLDER: Final = "exports"
"""Folder with a folder for each run; a table's files stay where they were written."""
RANGES_LISTED: Final = 100
"""Most gaps, and most damaged ranges, that a table's history lists; more are only counted."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file, whole and durable, that is not in the table yet.

    Attributes:
        path: Path in the store of the table.
        partition: Text of each partition column, from the file's folders; None for null.
        rows: Number of rows, at least one.
        size_bytes: Size of the file in bytes.
        offsets: Offset of the first row, and the offset after the last one.
        timestamps_us: Lowest and highest append time of a row.
    """

    path: str
    partition: dict[str, str | None]
    rows: int
    size_bytes: int
    offsets: Range
    timestamps_us: tuple[int, int]


def table_file(store: OutputStore, written: WrittenFile) -> TableFile:
    """Return the description of a file.

    Args:
        store: Store of the file; reads the footer if the file lacks offsets of its range.
        written: Report of the task that wrote the file.
    """
    *folders, _ = written.target.split("/")
    offsets = (written.start_offset, written.end_offset)
    if written.rows < written.end_offset - written.start_offset:
        offsets = _offsets(store, written.path)
    return TableFile(
        path=written.path,
        partition=dict(folder_value(folder) for folder in folders),
        rows=written.rows,
        size_bytes=written.size_bytes,
        offsets=offsets,
        timestamps_us=(written.min_timestamp_ns // 1000, written.max_timestamp_ns // 1000),
    )


def commit_note(
    log: QueueLog,
    job: ExportJob,
    files: Sequence[WrittenFile],
    gaps: Sequence[Range],
    corrupt: Sequence[CorruptRange],
) -> dict[str, Any]:
    """Return the note about a commit for the table's history, as plain values."""
    rows = sum(file.rows for file in files)
    damaged = [(each.start, each.end) for each in corrupt]
    return {
        "vhost": replaced_text(log.vhost),
        "queue": replaced_text(log.queue),
        "incarnation": str(log.incarnation),
        "start": job.start,
        "end": job.end,
        "ranges": [list(each) for each in job.ranges],
        "rows": rows,
        "without_row": offsets_in(job.ranges) - rows,
        "gaps": [list(each) for each in gaps[:RANGES_LISTED]],
        "corrupt": [list(each) for each in damaged[:RANGES_LISTED]],
        "include": job.include,
        "schema_version": SCHEMA_VERSION,
        "job": job.job_id,
    }


def sync_paths(paths: Iterable[Path]) -> None:
    """Make files and directories durable, which the libraries of tables leave to the kernel.

    Raises:
        OSError: One of them cannot be synced.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _offsets(store: OutputStore, path: str) -> Range:
    with store.open_read(path) as file:
        footer = pq.read_metadata(file)
    column = footer.schema.to_arrow_schema().get_field_index("offset")
    chunks = [footer.row_group(at).column(column) for at in range(footer.num_row_groups)]
    bounds = [chunk.statistics for chunk in chunks]
    return min(each.min for each in bounds), max(each.max for each in bounds) + 1
