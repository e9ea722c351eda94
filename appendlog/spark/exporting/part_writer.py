"""One Spark task: read a split of the log, write one Parquet file under a temporary name.

Runs in the executor's Python. Everything that it gets and gives back is plain data. What the
user must decide about (damage, a segment that retention has removed) comes back as a value,
because trying again would not help; anything else is raised, and Spark tries again where it
is told to.

Memory: one row group and one batch, whatever the sizes of split and segment.
"""

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from appendlog.errors import CorruptRecordError, OffsetOutOfRangeError
from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.exporting.layout import file_metadata, part_name
from appendlog.spark.exporting.parquet_format import ParquetFormat
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import EXPORT_ROWS
from appendlog.split_reader import Split, SplitReader

ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 32 << 20
GAPS_MAX: Final = 100
"""Gaps that are listed; more are only counted."""


@dataclass(frozen=True, slots=True)
class PartTask:
    """What a task is told.

    Attributes:
        log: Where to read.
        split: What to read.
        directory: Where to write.
    """

    log: QueueLog
    split: Split
    directory: Path


@dataclass(slots=True)
class PartResult:
    """What a task reports.

    Attributes:
        start_offset: Of the split, inclusive.
        end_offset: Exclusive.
        path: The file, synced; None when there is none.
        rows: Messages in it.
        size_bytes: Of the file.
        missing: Offsets of the split that are not in the log: rows + missing = all.
        gaps: Which ones, the first `GAPS_MAX` ranges.
        undecodable: Messages with null headers or properties because these do not add up.
        damage: What is damaged and where; None when nothing is.
        is_removed: Retention removed the segment before it was read.
    """

    start_offset: int
    end_offset: int
    path: Path | None = None
    rows: int = 0
    size_bytes: int = 0
    missing: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    undecodable: int = 0
    damage: str | None = None
    is_removed: bool = False

    def add_gap(self, start: int, end: int) -> None:
        """Count offsets that the log does not have; joined with the gap before if they meet."""
        self.missing += end - start
        if self.gaps and self.gaps[-1][1] == start:
            self.gaps[-1] = (self.gaps[-1][0], end)
        elif len(self.gaps) < GAPS_MAX:
            self.gaps.append((start, end))


def write_part(task: PartTask) -> PartResult:
    """Export one split.

    Raises:
        OSError: The log cannot be read or the file cannot be written.
        LogError: The log is of another format version.
    """
    split = task.split
    result = PartResult(split.start_offset, split.end_offset)
    # Unique: a second attempt, or a speculative copy, never meets the first.
    name = part_name(split.start_offset, split.end_offset)
    path = task.directory / f"{uuid.uuid4().hex}-{name}"
    reader = SplitReader(task.log.directory)
    try:
        _write(reader, task, path, result)
    except (OffsetOutOfRangeError, FileNotFoundError):
        # Also when the output is what is missing: then its directory is gone.
        if not task.directory.is_dir():
            raise
        result.is_removed = True
    except CorruptRecordError as error:
        result.damage = str(error)
    except MalformedMessageError as error:
        segment = f"{split.segment_base_offset:020d}.log"
        result.damage = f"{task.log.directory / segment}: {error}"
    else:
        result.path, result.size_bytes = path, path.stat().st_size
    finally:
        reader.close()
    return result


def write_parts(tasks: Iterable[PartTask]) -> Iterator[PartResult]:
    """Export the splits of one Spark partition, one after the other."""
    return map(write_part, tasks)


def _write(reader: SplitReader, task: PartTask, path: Path, result: PartResult) -> None:
    with path.open("xb") as file:
        writer = ParquetFormat().open(file, EXPORT_ROWS.arrow)
        try:
            for group in _row_groups(_batches(reader, task, result)):
                writer.write(group)
        except BaseException:
            writer.discard()
            raise
        writer.close(file_metadata(task.log) | _summary(result))
        file.flush()
        os.fsync(file.fileno())


def _batches(reader: SplitReader, task: PartTask, result: PartResult) -> Iterator[pa.RecordBatch]:
    for batch in log_batches(reader, task.log, task.split, EXPORT_ROWS):
        for start, end in batch.missing:
            result.add_gap(start, end)
        result.rows += batch.rows.num_rows
        result.undecodable += batch.undecodable
        if batch.rows.num_rows:
            yield batch.rows


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to row groups: the same ones each time, for the same messages."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _summary(result: PartResult) -> dict[str, str]:
    return {
        "amqplog.start_offset": str(result.start_offset),
        "amqplog.end_offset": str(result.end_offset),
        "amqplog.rows": str(result.rows),
        "amqplog.missing": str(result.missing),
        "amqplog.gaps": json.dumps(result.gaps),
        "amqplog.undecodable": str(result.undecodable),
    }
