"""Exports of real logs as real Parquet files, without Spark and without its tasks."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.destination import WrittenFile
from appendlog.spark.exporting.layout import part_name
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range, join_ranges, subtract_ranges
from appendlog.split_reader import Split, SplitReader
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.commits import plan

SPLIT_BYTES = 1000


def stored_queue(path: Path, count: int = 100, gap: int = 7) -> StoredQueue:
    """Store a queue with a gap of offsets behind half of its messages."""
    queue = store_queue(path, segment_bytes=2048)
    queue.append(plain_messages(count // 2), step=10)
    queue.skip(gap)
    queue.append(plain_messages(count - count // 2, first=count // 2 + gap), step=10)
    queue.close()
    return queue


def export_log(store: OutputStore, log: QueueLog, until: int | None = None) -> FilesDestination:
    """Export what is new, a file for each split."""
    to = FilesDestination(store, log)
    reader = open_reader(log)
    splits = SplitReader(log.directory, log.filesystem)
    try:
        job = plan(to, reader.log_end_offset if until is None else until)
        with to.begin(job) as folder:
            files: list[WrittenFile] = []
            for start, end in job.ranges:
                for split in reader.plan_splits(start, end, SPLIT_BYTES):
                    files += _write(store, splits, log, split, folder)
            in_files = join_ranges((file.start_offset, file.end_offset) for file in files)
            gaps: list[Range] = subtract_ranges(job.ranges, in_files)
            to.commit(job, files, gaps, ())
    finally:
        splits.close()
        reader.close()
    return to


def _write(
    store: OutputStore, splits: SplitReader, log: QueueLog, split: Split, folder: str
) -> list[WrittenFile]:
    batches = [batch.rows for batch in log_batches(splits, log, split) if batch.rows.num_rows]
    if not batches:
        return []
    rows = pa.Table.from_batches(batches)
    name = part_name(split.start_offset, split.end_offset)
    path = f"{folder}/{name}"
    with store.open_new(path) as file:
        pq.write_table(rows, file, row_group_size=10)
    data = store.read(path)
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        WrittenFile(
            path=path,
            target=name,
            start_offset=split.start_offset,
            end_offset=split.end_offset,
            rows=rows.num_rows,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            min_timestamp_ns=min(times) * 1000,
            max_timestamp_ns=max(times) * 1000 + 999,
            missing=split.end_offset - split.start_offset - rows.num_rows,
        )
    ]
