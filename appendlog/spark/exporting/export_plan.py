"""Plans an export: the offsets that the user asks for, without those that the output has.

An export never writes a row twice, because it never plans an offset that the output has, whatever
the ranges of earlier runs were. Running the same command again exports what is new.

Planning reads the durable end once, and tasks read splits below it. So a broker that continues to
write changes nothing. Planning reads indexes, footers and the durable end; it reads messages only
to cut files by time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from appendlog.errors import LogError
from appendlog.reader import LogReader
from appendlog.spark.errors import DataLossError, OutputError, RangeError
from appendlog.spark.exporting.destination import Destination, Exported, ExportJob
from appendlog.spark.exporting.time_partitions import FolderRange, PartitionBy, cut_by_time
from appendlog.spark.planning.bounds import Bound, IfNoneLater, resolve_offset
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges
from appendlog.spark.planning.settlement import Include, OffsetChoice, Settled, read_settled
from appendlog.split_reader import Split

SPLIT_BYTES: Final = 8 << 20
"""Least bytes of log for a task of its own."""
TASK_BYTES_MAX: Final = 1 << 30
"""Most bytes of log for a task: a failed task writes them again, and progress has this step."""
TASKS_PER_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Range that the user asks for, of every queue.

    Attributes:
        since: Start of the range; None for everything that is not in the output yet.
        is_since_last: Whether to begin where the last export ended; `since` is None then.
        until: End of the range, exclusive; None for the durable end.
        include: Messages that become rows.
        partition_by: Unit of the folders by time; None for no such folders.
        allows_loss: Whether offsets that are gone from the log are gaps, instead of an error.
        skips_damage: Whether damaged parts of the log are left out, instead of an error.
    """

    since: Bound | None = None
    is_since_last: bool = False
    until: Bound | None = None
    include: Include = Include.ALL
    partition_by: PartitionBy | None = None
    allows_loss: bool = False
    skips_damage: bool = False


@dataclass(frozen=True, slots=True)
class PlannedPiece:
    """Splits of one range, without the offsets that the user did not ask for.

    Attributes:
        part: Range of the splits, and folder of their files.
        splits: At least one split, in order.
    """

    part: FolderRange
    splits: tuple[Split, ...]

    @property
    def size_bytes(self) -> int:
        """Return its size in bytes of log, estimated from the index."""
        return sum(_size_bytes(split) for split in self.splits)

    @property
    def offset_count(self) -> int:
        """Return the number of offsets in it."""
        return sum(split.end_offset - split.start_offset for split in self.splits)


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """Plan of one run for one queue.

    Attributes:
        log: Log to read.
        job: Job for the destination.
        log_start_offset: Lowest offset of the log.
        durable_end: End of the offsets that are on the disk, exclusive.
        lost: Offsets of the job that retention has removed; they become gaps of the output.
        pieces: Pieces to read, in order; each is one small split until `in_tasks`.
        choice: Offsets that become rows; None for all.
        settled: Settlement that `choice` was made from; None if it was not needed.
    """

    log: QueueLog
    job: ExportJob
    log_start_offset: int
    durable_end: int
    lost: tuple[Range, ...]
    pieces: tuple[PlannedPiece, ...]
    choice: OffsetChoice | None
    settled: Settled | None

    @property
    def is_empty(self) -> bool:
        """Whether the output has everything that the user asked for."""
        return not self.job.ranges

    @property
    def offset_count(self) -> int:
        """Return the number of offsets to export."""
        return offsets_in(self.job.ranges)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of log to read, estimated from the index."""
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def next_offset(self) -> int:
        """Return the first offset after all that the output has, once the plan is carried out."""
        ends = [end for ranges in (self.job.covered, self.job.ranges) for _, end in ranges]
        return max(ends, default=self.job.start)


def plan_queue(
    storage_path: Path, log: QueueLog, destination: Destination, request: ExportRequest
) -> QueuePlan:
    """Return the plan for a queue.

    Args:
        storage_path: Data directory.
        log: Log of the queue.
        destination: Output of the queue; read for the offsets that it has.
        request: What the user asks for.

    Raises:
        RangeError: The range is reversed, or passes the durable end.
        DataLossError: Retention has removed offsets of the range that the output does not have.
        OutputError: The output is of another queue, or has messages that the log never had.
        SettlementError: The request needs the settlement, and the checkpoint cannot be read.
        LogError: The log cannot be read.
        OSError: Log or output cannot be read.
    """
    covered = tuple(destination.covered())
    last_end = destination.last_end() if request.is_since_last else None
    with open_reader(log, skip_damage=request.skips_damage) as reader:
        _check_covered(reader, log, covered)
        _check_exported(reader, log, destination.exported() if covered else None)
        first, durable_end = reader.log_start_offset, reader.log_end_offset
        start, end = _bounds(reader, log, covered, last_end, request)
        missing = subtract_ranges([(start, end)], covered)
        readable = subtract_ranges(missing, [(0, first)])
        lost = subtract_ranges(missing, readable)
        settled = None if request.include is Include.ALL else read_settled(storage_path, log)
        choice = settled.choose(request.include, durable_end) if settled else None
        lost, readable = _asked_for(lost, choice), _asked_for(readable, choice)
        if lost and not request.allows_loss:
            raise DataLossError(log.queue, lost[0][0], lost[-1][1])
        pieces = [
            piece
            for range_ in readable
            for piece in _pieces(reader, range_, request.partition_by, choice)
        ]
    ranges = tuple(join_ranges([*lost, *readable]))
    return QueuePlan(
        log=log,
        job=ExportJob(start, max(start, end), ranges, covered, request.include.value),
        log_start_offset=first,
        durable_end=durable_end,
        lost=tuple(lost),
        pieces=tuple(pieces),
        choice=choice,
        settled=settled,
    )


def in_tasks(plans: Sequence[QueuePlan], cores: int) -> list[QueuePlan]:
    """Return the plans with pieces of a size that keeps all cores busy; a piece is a task.

    The same plans and cores give the same pieces.

    Args:
        plans: Plans of all queues of a run, from `plan_queue`.
        cores: Number of tasks that can run at once, >= 1.
    """
    size = sum(plan.size_bytes for plan in plans)
    task_bytes = min(max(size // (cores * TASKS_PER_CORE), SPLIT_BYTES), TASK_BYTES_MAX)
    return [replace(plan, pieces=tuple(_pack(plan.pieces, task_bytes))) for plan in plans]


def _check_covered(reader: LogReader, log: QueueLog, covered: Sequence[Range]) -> None:
    if covered and covered[-1][1] > reader.log_end_offset:
        raise OutputError(
            f"the output of queue {log.queue!r} ends at offset {covered[-1][1]}, behind the "
            f"durable end {reader.log_end_offset} of the log: start the server once to recover it "
            "after a power cut, or give another --out if it was restored from an older copy"
        )


def _check_exported(reader: LogReader, log: QueueLog, exported: Exported | None) -> None:
    """Refuse a log that was restored from an older copy, and has grown past its old end since.

    Then it has later messages at the offsets that were exported; they would never be exported.
    """
    if exported is None:
        return
    last, newest_us = exported.end - 1, exported.newest_ns // 1000
    try:
        times = [
            time_ns
            for result in reader.read(max(last, reader.log_start_offset), exported.end)
            for time_ns in result.timestamps_ns
        ]
    except (LogError, FileNotFoundError):
        # What was exported, or left out, may be damaged or removed by now.
        return
    if any(time_ns // 1000 > newest_us for time_ns in times):
        raise OutputError(
            f"the output of queue {log.queue!r} has other messages than the log: offset {last} was "
            "appended after it was exported, so the log was restored from an older copy: give "
            "another --out"
        )


def _bounds(
    reader: LogReader,
    log: QueueLog,
    covered: Sequence[Range],
    last_end: int | None,
    request: ExportRequest,
) -> Range:
    """Return the range that the user asks for; empty if its end is not above its start."""
    first, durable_end = reader.log_start_offset, reader.log_end_offset
    if request.since is not None:
        start = resolve_offset(reader, log.queue, request.since, IfNoneLater.LATEST)
    elif last_end is not None:
        start = last_end
    else:
        start = first if request.is_since_last else min([first, *(low for low, _ in covered[:1])])
    if request.until is None:
        return start, durable_end
    end = resolve_offset(reader, log.queue, request.until, IfNoneLater.LATEST, is_end=True)
    if end > durable_end:
        raise RangeError(
            f"--until {end} is after the durable end {durable_end} of queue {log.queue!r}"
        )
    if request.since is not None and start > end:
        raise RangeError(f"--since is offset {start} of queue {log.queue!r}, after --until {end}")
    return start, end


def _pieces(
    reader: LogReader, range_: Range, partition_by: PartitionBy | None, choice: OffsetChoice | None
) -> Iterator[PlannedPiece]:
    for part in cut_by_time(reader, *range_, partition_by):
        for split in reader.plan_splits(part.start, part.end, SPLIT_BYTES):
            if choice is None or choice.count(split.start_offset, split.end_offset):
                yield PlannedPiece(part, (split,))


def _asked_for(ranges: Sequence[Range], choice: OffsetChoice | None) -> list[Range]:
    """Cut each range to its first and last offset that the user asks for.

    A later run may ask for offsets after the last one, so this run must not cover them.
    """
    if choice is None:
        return list(ranges)
    inside = [choice.clip(start, end).ranges for start, end in ranges]
    return [(each[0][0], each[-1][1]) for each in inside if each]


def _pack(pieces: Sequence[PlannedPiece], task_bytes: int) -> Iterator[PlannedPiece]:
    """Join neighbouring pieces of one range; splits that meet in a segment become one."""
    waiting: list[PlannedPiece] = []
    size = 0
    for piece in pieces:
        if waiting and (size + piece.size_bytes > task_bytes or piece.part != waiting[0].part):
            yield _joined(waiting)
            waiting = []
            size = 0
        waiting.append(piece)
        size += piece.size_bytes
    if waiting:
        yield _joined(waiting)


def _joined(pieces: Sequence[PlannedPiece]) -> PlannedPiece:
    splits: list[Split] = []
    for split in (split for piece in pieces for split in piece.splits):
        if splits and _are_adjacent(splits[-1], split):
            splits[-1] = replace(
                splits[-1], end_position=split.end_position, end_offset=split.end_offset
            )
        else:
            splits.append(split)
    return PlannedPiece(pieces[0].part, tuple(splits))


def _are_adjacent(before: Split, after: Split) -> bool:
    place = (before.segment_base_offset, before.generation, before.end_offset)
    return place == (after.segment_base_offset, after.generation, after.start_offset)


def _size_bytes(split: Split) -> int:
    return max(split.end_position - split.start_position, 0)
