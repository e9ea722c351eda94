"""Files of a queue as the tasks of an export leave them, written without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import Destination, ExportJob, WrittenFile
from appendlog.spark.exporting.export_plan import ExportRequest, plan_queue
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.file_task import FileTask, write_files
from appendlog.spark.exporting.files.parquet_format import ParquetFormat
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.bounds import Bound
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range


@dataclass(frozen=True, slots=True)
class Written:
    """What a run has written and not committed."""

    job: ExportJob
    files: list[WrittenFile]
    gaps: list[Range]


def planned(destination: Destination, start: int, end: int) -> ExportJob:
    """Return the job of a range, of which nothing is in the output."""
    return ExportJob(start, end, ((start, end),), tuple(destination.covered()))


def written(
    log: QueueLog,
    job: ExportJob,
    root: Path,
    folder: str,
    place: str = "",
    file_format: FileFormat | None = None,
) -> Written:
    """Write the files of a job below a folder of an output."""
    wanted = ExportRequest(since=Bound.at_offset(job.start), until=Bound.at_offset(job.end))
    planned = plan_queue(root, log, FilesDestination(LocalStore(root / "none"), log), wanted)
    files: list[WrittenFile] = []
    gaps: list[Range] = []
    for piece in planned.pieces:
        for split in piece.splits:
            task = FileTask(
                log,
                (split,),
                LocalStore(root),
                folder,
                file_format or ParquetFormat(),
                place,
                target_bytes=2000,
            )
            result = write_files(task)
            gaps += result.account.gaps
            files += result.files
    return Written(job, files, gaps)


def export(
    destination: Destination,
    log: QueueLog,
    root: Path,
    ranges: Sequence[Range],
    place: str = "",
    file_format: FileFormat | None = None,
) -> None:
    """Export ranges one after the other."""
    for start, end in ranges:
        job = planned(destination, start, end)
        with destination.begin(job) as folder:
            parts = written(log, job, root, folder, place, file_format)
            destination.commit(job, parts.files, parts.gaps, [])
