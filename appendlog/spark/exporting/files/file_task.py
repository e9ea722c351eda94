"""Task of an export: reads consecutive splits of a log, and writes one or several files.

It runs in the executor's Python; its arguments and results are plain data. If the user must decide
(damage, a segment that retention has removed), the result says so, because a retry would not help.
Any other failure is raised, and Spark retries the task if it is configured to.

A file ends at the end of a group of rows, once it has the target size; so the same task makes the
same files. Memory: one group and one batch, whatever the size of log and files.
"""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.errors import CorruptRecordError, LogError, OffsetOutOfRangeError
from appendlog.segments.segment import SegmentName
from appendlog.spark.decoding.log_batches import LogBatch, log_batches
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.errors import TaskFailedError
from appendlog.spark.exporting.destination import CorruptRange, WrittenFile
from appendlog.spark.exporting.files.counted_file import CountedFile
from appendlog.spark.exporting.files.file_format import FileFormat, FileWriter
from appendlog.spark.exporting.files.quarantine import Quarantine
from appendlog.spark.exporting.files.row_groups import OffsetAccount, RowGroup, join_batches
from appendlog.spark.exporting.layout import file_metadata, part_name
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.settlement import OffsetChoice
from appendlog.spark.schema.columns import EXPORT_ROWS
from appendlog.split_reader import Split, SplitReader, refuse_damage, skip_damage

FILE_BYTES: Final = 256 << 20
_NS_PER_US: Final = 1000


@dataclass(frozen=True, slots=True)
class FileTask:
    """Arguments of a task; plain data, picklable.

    Attributes:
        log: Log to read.
        splits: Splits to read, at least one, in order; the user did not ask for offsets between.
        store: Store to write to.
        folder: Folder of the store for unfinished files.
        file_format: Format of the files.
        subfolder: Final folder of the files, below that of the queue: `date=2026-11-21/`, or empty.
        target_bytes: Size in bytes at which a file ends.
        choice: Offsets that become rows; None for all.
        skips_damage: Whether to leave out damaged parts of the log, and quarantine them.
    """

    log: QueueLog
    splits: tuple[Split, ...]
    store: OutputStore
    folder: str
    file_format: FileFormat
    subfolder: str = ""
    target_bytes: int = FILE_BYTES
    choice: OffsetChoice | None = None
    skips_damage: bool = False

    @property
    def start_offset(self) -> int:
        """Return the first offset."""
        return self.splits[0].start_offset

    @property
    def end_offset(self) -> int:
        """Return the end of the offsets, exclusive."""
        return self.splits[-1].end_offset

    @property
    def size_bytes(self) -> int:
        """Return the bytes of log that the task reads, estimated from the index."""
        return sum(max(split.end_position - split.start_position, 0) for split in self.splits)


@dataclass(slots=True)
class TaskResult:
    """Result of a task.

    Attributes:
        account: Account of all its offsets.
        files: Files that it wrote, in the order of offsets. Together they cover the range of the
            task; there is no file if there are no rows.
        corrupt: Damaged parts of the log that were left out.
        damage: Damage that ended the task, with its place; None if there was none.
        is_removed: Whether retention removed a segment before it was read.
    """

    account: OffsetAccount
    files: list[WrittenFile] = field(default_factory=list)
    corrupt: list[CorruptRange] = field(default_factory=list)
    damage: str | None = None
    is_removed: bool = False


def write_files(task: FileTask) -> TaskResult:
    """Export the splits of a task.

    Raises:
        TaskFailedError: The log cannot be read or a file cannot be written; the message has queue
            and offsets.
    """
    result = TaskResult(OffsetAccount(task.start_offset, task.start_offset))
    try:
        reader = SplitReader(
            task.log.directory,
            task.log.filesystem,
            on_damage=skip_damage if task.skips_damage else refuse_damage,
        )
        with closing(reader):
            _TaskRun(task, reader, result).run()
    except OffsetOutOfRangeError:
        result.is_removed = True
    except CorruptRecordError as error:
        result.damage = str(error)
    except (LogError, OSError, pa.ArrowException) as error:
        raise TaskFailedError(f"{_describe(task)}: {error}") from error
    else:
        assert result.account.is_complete
        assert result.account.end_offset == task.end_offset
    return result


def _describe(task: FileTask) -> str:
    first = task.splits[0]
    segment = SegmentName(first.segment_base_offset, first.generation).file_name
    more = f" and {len(task.splits) - 1} more pieces" if len(task.splits) > 1 else ""
    return (
        f"queue {task.log.queue!r} of virtual host {task.log.vhost!r}, segment {segment}{more}, "
        f"offsets [{task.start_offset}, {task.end_offset})"
    )


class _TaskRun:
    """A running task: writes the groups of its rows, one at a time, to files."""

    def __init__(self, task: FileTask, reader: SplitReader, result: TaskResult) -> None:
        self._task = task
        self._reader = reader
        self._result = result
        self._quarantine = Quarantine(task.store, task.log)
        self._groups = join_batches(self._batches(), EXPORT_ROWS.arrow, task.choice)
        self._group: RowGroup | None = None

    def run(self) -> None:
        """Write one file after another, until there is no group left."""
        self._advance()
        while (group := self._group) is not None:
            if group.account.rows:
                del group
                self._write_file()
            else:
                self._result.account.add(group.account)
                self._advance()
        self._result.corrupt += self._quarantine.ranges

    def _advance(self) -> None:
        # Release the old group first: one group in memory, not two.
        self._group = None
        self._group = next(self._groups, None)

    def _write_file(self) -> None:
        task = self._task
        path = f"{task.folder}/{uuid.uuid4().hex}.{task.file_format.extension}"
        with task.store.open_new(path) as stored:
            file = CountedFile(stored)
            writer = task.file_format.open(cast("BinaryIO", file), EXPORT_ROWS.arrow)
            try:
                account, times = self._write_groups(writer, file)
            except BaseException:
                writer.discard()
                raise
            writer.close(file_metadata(task.log) | _summary(account))
        self._result.account.add(account)
        self._result.files.append(_written(task, path, file, account, times))

    def _write_groups(
        self, writer: FileWriter, file: CountedFile
    ) -> tuple[OffsetAccount, tuple[int, int]]:
        """Write groups until the file is large enough; account for later groups without rows."""
        assert self._group is not None
        account = self._group.account
        times: list[int] = []
        while True:
            rows = self._group.rows
            if rows.num_rows:
                writer.write(rows)
                times += _first_and_last_us(rows)
            del rows
            self._advance()
            if self._group is None:
                break
            if self._group.account.rows and file.size_bytes >= self._task.target_bytes:
                break
            account.add(self._group.account)
        return account, (min(times) * _NS_PER_US, max(times) * _NS_PER_US)

    def _batches(self) -> Iterator[LogBatch]:
        task = self._task
        reader = self._reader
        for split in task.splits:
            try:
                for batch in log_batches(
                    reader, task.log, split, EXPORT_ROWS, skip_malformed=task.skips_damage
                ):
                    for damage in batch.damaged:
                        self._quarantine.add(damage, reader)
                    yield batch
            except MalformedMessageError as error:
                path = task.log.directory / f"{split.segment_base_offset:020d}.log"
                raise CorruptRecordError(
                    path, split.start_position, split.start_offset, str(error)
                ) from error


def _first_and_last_us(rows: pa.Table) -> list[int]:
    found = pc.min_max(rows.column("timestamp").cast(pa.int64()))
    return [found["min"].as_py(), found["max"].as_py()]


def _written(
    task: FileTask, path: str, file: CountedFile, account: OffsetAccount, times_ns: tuple[int, int]
) -> WrittenFile:
    start, end = account.start_offset, account.end_offset
    return WrittenFile(
        path=path,
        target=task.subfolder + part_name(start, end, task.file_format.extension),
        start_offset=start,
        end_offset=end,
        rows=account.rows,
        size_bytes=file.size_bytes,
        sha256=file.sha256,
        min_timestamp_ns=times_ns[0],
        max_timestamp_ns=times_ns[1],
        missing=account.missing,
        corrupt=account.corrupt,
        excluded=account.excluded,
    )


def _summary(account: OffsetAccount) -> dict[str, str]:
    return {
        "amqplog.start_offset": str(account.start_offset),
        "amqplog.end_offset": str(account.end_offset),
        "amqplog.rows": str(account.rows),
        "amqplog.missing": str(account.missing),
        "amqplog.corrupt": str(account.corrupt),
        "amqplog.excluded": str(account.excluded),
        "amqplog.gaps": json.dumps(account.gaps),
        "amqplog.undecodable": str(account.undecodable),
    }
