"""Task of an export: reads consecutive splits of a log, and writes one or several files.

It runs in the executor's Python; its arguments and results are plain data. If the user must decide
(damage, a segment that retention has removed), the result says so, because a retry would not help.
Any other failure is raised, and Spark retries the task if it is configured to.

A file ends at the end of a group of rows, once it has the target size; so the same task makes the
same files. With fields to divide by, the files of a range end together. Memory: one group and one
batch, whatever the size of log and files; with such fields, two groups.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from appendlog.errors import CorruptRecordError, LogError, OffsetOutOfRangeError
from appendlog.segments.segment import SegmentName
from appendlog.spark.decoding.log_batches import LogBatch, log_batches
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.errors import PartitionFieldError, TaskFailedError
from appendlog.spark.exporting.destination import CorruptRange, WrittenFile
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.quarantine import Quarantine
from appendlog.spark.exporting.files.row_groups import OffsetAccount, RowGroup, join_batches
from appendlog.spark.exporting.files.sibling_files import (
    OPEN_FILES_MAX,
    FilePlace,
    SiblingFiles,
    write_one_by_one,
)
from appendlog.spark.exporting.layout import file_metadata
from appendlog.spark.exporting.partition_fields import PartitionField, RowsOfFolder, divide_rows
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.settlement import OffsetChoice
from appendlog.spark.schema.columns import EXPORT_ROWS
from appendlog.split_reader import Split, SplitReader, refuse_damage, skip_damage

FILE_BYTES: Final = 256 << 20
FOLDERS_MAX: Final = 500
"""Most folders of a group of rows: an import has the files of all of them open."""


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
        fields: Fields of messages by which rows are divided into folders.
        keeps_fields: Whether the files have the fields as columns too.
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
    fields: tuple[PartitionField, ...] = ()
    keeps_fields: bool = False

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
        files: Files that it wrote, in the order of offsets, siblings in that of their folders.
            Together they cover the range of the task; there is no file if there are no rows.
        corrupt: Damaged parts of the log that were left out.
        damage: Damage that ended the task, with its place; None if there was none.
        is_removed: Whether retention removed a segment before it was read.
        refusal: Why the rows cannot be divided by the fields; None if they can.
    """

    account: OffsetAccount
    files: list[WrittenFile] = field(default_factory=list)
    corrupt: list[CorruptRange] = field(default_factory=list)
    damage: str | None = None
    is_removed: bool = False
    refusal: str | None = None


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
    except PartitionFieldError as error:
        result.refusal = str(error)
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
        self._place = FilePlace(
            store=task.store,
            folder=task.folder,
            file_format=task.file_format,
            subfolder=task.subfolder,
            metadata=file_metadata(task.log),
            has_siblings=bool(task.fields),
        )

    def run(self) -> None:
        """Write the files of one range after another, until there is no group left."""
        self._advance()
        while self._group is not None:
            account = self._group.account
            if account.rows:
                self._write_range(account)
            else:
                self._advance()
            self._result.account.add(account)
        self._result.corrupt += self._quarantine.ranges

    def _advance(self) -> None:
        # Release the old group first: one group in memory, not two.
        self._group = None
        self._group = next(self._groups, None)

    def _divided(self) -> list[RowsOfFolder]:
        """Return the rows of the group by their folders.

        Raises:
            PartitionFieldError: These are too many.
        """
        assert self._group is not None
        task, group = self._task, self._group
        if not group.rows.num_rows:
            return []
        divided = divide_rows(group.rows, task.fields, keeps_columns=task.keeps_fields)
        if len(divided) > FOLDERS_MAX:
            fields = " and ".join(map(str, task.fields))
            raise PartitionFieldError(
                f"{fields}: {len(divided)} values in {group.rows.num_rows} messages, offsets "
                f"[{group.account.start_offset}, {group.account.end_offset}): each would be a "
                f"file, {FOLDERS_MAX} are the most; take a field with fewer values"
            )
        return divided

    def _write_range(self, account: OffsetAccount) -> None:
        """Write groups until a file is large enough; account for later groups without rows."""
        divided = self._divided()
        if len(divided) > OPEN_FILES_MAX:
            self._result.files += write_one_by_one(self._place, divided, account)
            self._advance()
            return
        with SiblingFiles(self._place) as files:
            while True:
                files.write(divided)
                divided = []
                self._advance()
                if self._group is None:
                    break
                more = self._group.account
                if more.rows:
                    if files.largest_bytes >= self._task.target_bytes:
                        break
                    divided = self._divided()
                    if not files.has_room_for(divided):
                        break
                account.add(more)
            self._result.files += files.finish(account)

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
