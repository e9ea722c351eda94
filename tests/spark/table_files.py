"""Files of a queue as the tasks of an export leave them, written without Spark."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from appendlog.spark.exporting.destination import Destination, ExportJob, WrittenFile
from appendlog.spark.exporting.export_plan import plan_export
from appendlog.spark.exporting.local_store import LocalStore
from appendlog.spark.exporting.part_writer import PartTask, write_part
from appendlog.spark.exporting.ranges import Range
from appendlog.spark.planning.queues import QueueLog


@dataclass(frozen=True, slots=True)
class Written:
    """What a run has written and not committed."""

    job: ExportJob
    files: list[WrittenFile]
    gaps: list[Range]


def planned(destination: Destination, start: int, end: int) -> ExportJob:
    """Return the job of a range, of which nothing is in the output."""
    return ExportJob(start, end, ((start, end),), tuple(destination.covered()))


def written(log: QueueLog, job: ExportJob, root: Path, folder: str, place: str = "") -> Written:
    """Write the files of a job below a folder of an output."""
    store = LocalStore(root)
    scratch = root.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    plan = plan_export(log, [], job.start, job.end, part_bytes=2000)
    files: list[WrittenFile] = []
    gaps: list[Range] = []
    for split in plan.splits:
        result = write_part(PartTask(log, split, scratch))
        assert result.path is not None
        gaps += result.gaps
        data = result.path.read_bytes()
        path = f"{folder}/{place}part-{result.start_offset:020d}-{result.end_offset:020d}.parquet"
        with store.open_new(path) as file:
            file.write(data)
        times = pq.read_table(result.path, columns=["timestamp"]).column(0).cast("int64")
        files.append(
            WrittenFile(
                path=path,
                target=path.removeprefix(f"{folder}/"),
                start_offset=result.start_offset,
                end_offset=result.end_offset,
                rows=result.rows,
                size_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                min_timestamp_ns=min(times.to_pylist()) * 1000,
                max_timestamp_ns=max(times.to_pylist()) * 1000,
                missing=result.missing,
            )
        )
    return Written(job, files, gaps)


def export(
    destination: Destination, log: QueueLog, root: Path, ranges: Sequence[Range], place: str = ""
) -> None:
    """Export ranges one after the other."""
    for start, end in ranges:
        job = planned(destination, start, end)
        with destination.begin(job) as folder:
            parts = written(log, job, root, folder, place)
            destination.commit(job, parts.files, parts.gaps, [])
