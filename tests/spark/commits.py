"""Exports without a log and without Spark: files of numbers, committed as real ones are."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import Destination, ExportJob, WrittenFile
from appendlog.spark.exporting.layout import part_name
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range, subtract_ranges

INCARNATION = UUID("11111111-2222-3333-4444-555555555555")


def queue_log(queue: str = "orders", vhost: str = "/", incarnation: UUID = INCARNATION) -> QueueLog:
    """Return a queue whose log is nowhere."""
    return QueueLog(vhost, queue, incarnation, Path("nowhere"))


def destination(store: OutputStore, queue: str = "orders") -> FilesDestination:
    """Return the part of an output that belongs to a queue."""
    return FilesDestination(store, queue_log(queue))


def plan(to: Destination, end: int, start: int = 0) -> ExportJob:
    """Return what is missing of a range, as a job."""
    covered = to.covered()
    ranges = subtract_ranges([(start, end)] if start < end else [], covered)
    return ExportJob(start, end, tuple(ranges), tuple(covered))


def write_files(
    to: Destination, folder: str, ranges: Sequence[Range], file_rows: int
) -> list[WrittenFile]:
    """Write the offsets of ranges, a file for each few of them."""
    return [
        write_file(to, folder, first, min(first + file_rows, end))
        for start, end in ranges
        for first in range(start, end, file_rows)
    ]


def write_file(to: Destination, folder: str, start: int, end: int) -> WrittenFile:
    """Write a file with the offsets of a range."""
    name = part_name(start, end)
    data = json.dumps(list(range(start, end))).encode()
    with to.store.open_new(f"{folder}/attempt-{name}") as file:
        file.write(data)
    return WrittenFile(
        path=f"{folder}/attempt-{name}",
        target=name,
        start_offset=start,
        end_offset=end,
        rows=end - start,
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        min_timestamp_ns=start,
        max_timestamp_ns=end - 1,
    )


def export(to: Destination, end: int, start: int = 0, file_rows: int = 4) -> bool:
    """Export what is missing of a range; return whether there was anything."""
    job = plan(to, end, start)
    if not job.ranges:
        return False
    with to.begin(job) as folder:
        to.commit(job, write_files(to, folder, job.ranges, file_rows), (), ())
    return True


def visible_offsets(root: Path) -> list[int]:
    """Return what a reader finds that knows nothing of manifests; every file must be whole."""
    files = sorted(root.glob("queue=*/**/*.parquet"))
    return [offset for file in files for offset in json.loads(file.read_bytes())]
