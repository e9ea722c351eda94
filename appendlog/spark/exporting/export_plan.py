"""What an export has to do: the offsets that are asked for, less those that are there.

An export never writes a row twice because it never plans an offset that a file in place
covers, whatever the ranges of earlier runs were. Running the same command again exports what
is new; a hole (a run that was killed while committing, a file that somebody removed) is filled.

The durable end is read once, here; tasks read splits below it, so a broker that goes on
writing changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from appendlog.reader import LogReader
from appendlog.spark.errors import DataLossError, OutputError, RangeError
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import Split

PART_BYTES: Final = 64 << 20
"""Size of a split of the log that becomes one file."""
PART_BYTES_MIN: Final = 8 << 20
PARTS_MIN: Final = 16
"""A smaller log is cut finer, down to `PART_BYTES_MIN`, so that all cores have work."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What one run does.

    Attributes:
        log: Where to read.
        start_offset: Of the range asked for, inclusive.
        end_offset: Exclusive; at most the durable end.
        log_start_offset: Lowest offset of the log.
        durable_end: Everything below it is on the disk.
        covered: What the output had when this was planned.
        splits: What is to be read: a task and a file each; empty when there is nothing new.
    """

    log: QueueLog
    start_offset: int
    end_offset: int
    log_start_offset: int
    durable_end: int
    covered: tuple[Range, ...]
    splits: tuple[Split, ...]

    @property
    def offset_count(self) -> int:
        """Return how many offsets are to be exported."""
        return sum(split.end_offset - split.start_offset for split in self.splits)


def plan_export(
    log: QueueLog,
    covered: Sequence[Range],
    since: int | None = None,
    until: int | None = None,
    part_bytes: int | None = None,
) -> ExportPlan:
    """Return what to read. Reads indexes, footers and the durable end, no messages.

    Args:
        log: Of the queue.
        covered: Ranges of offsets that the output has, in order and disjoint.
        since: First offset; by default all that the log and the output have.
        until: End, exclusive; the durable end by default.
        part_bytes: Size of a split; by default `PART_BYTES`, less for a small log.

    Raises:
        RangeError: The range is reversed, or passes the durable end.
        DataLossError: Offsets in it were removed by retention and are not in the output.
        OutputError: The output has offsets that the log never had.
        LogError: The log cannot be read.
    """
    reader = open_reader(log)
    try:
        return _plan(reader, log, covered, since, until, part_bytes)
    finally:
        reader.close()


def _plan(
    reader: LogReader,
    log: QueueLog,
    covered: Sequence[Range],
    since: int | None,
    until: int | None,
    part_bytes: int | None,
) -> ExportPlan:
    first, durable_end = reader.log_start_offset, reader.log_end_offset
    if covered and covered[-1][1] > durable_end:
        raise OutputError(
            f"the output of queue {log.queue!r} ends at offset {covered[-1][1]}, behind the "
            f"durable end {durable_end} of the log: start the server once to recover it after a "
            "power cut, or give another --out if it was restored from an older copy"
        )
    start = min([first, *(begin for begin, _ in covered[:1])]) if since is None else since
    end = durable_end if until is None else until
    if until is not None and until > durable_end:
        raise RangeError(f"--until {until} is behind the durable end {durable_end} of the log")
    if until is not None and start > until:
        raise RangeError(f"--since {start} is behind --until {until}")
    missing = subtract(start, end, covered)
    if missing and missing[0][0] < first:
        raise DataLossError(log.queue, missing[0][0], min(first, end))
    return ExportPlan(
        log=log,
        start_offset=start,
        end_offset=max(start, end),
        log_start_offset=first,
        durable_end=durable_end,
        covered=tuple(covered),
        splits=tuple(_splits(reader, missing, part_bytes)),
    )


def _splits(reader: LogReader, missing: Sequence[Range], part_bytes: int | None) -> list[Split]:
    if part_bytes is not None:
        return [
            split for start, end in missing for split in reader.plan_splits(start, end, part_bytes)
        ]
    splits = _splits(reader, missing, PART_BYTES)
    size = sum(split.end_position - split.start_position for split in splits)
    if size >= PARTS_MIN * PART_BYTES:
        return splits
    return _splits(reader, missing, max(size // PARTS_MIN, PART_BYTES_MIN))


def subtract(start: int, end: int, covered: Sequence[Range]) -> list[Range]:
    """Return what of `[start, end)` is in none of the covered ranges, in order.

    Args:
        start: Inclusive.
        end: Exclusive; at or below `start` means nothing.
        covered: In order and disjoint.
    """
    missing: list[Range] = []
    for begin, stop in covered:
        if start < min(begin, end):
            missing.append((start, min(begin, end)))
        start = max(start, stop)
    if start < end:
        missing.append((start, end))
    return missing
