"""Plans what the tasks of a stream's batch read.

The plan depends only on the ranges and on the bytes of the logs, not on the moment. So a batch that
is planned again after a crash has the same rows, wherever its log ends by then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from appendlog.errors import OffsetOutOfRangeError
from appendlog.reader import LogReader
from appendlog.spark.errors import QueueNotFoundError
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.packing import LogPiece, Partition, plan_partitions
from appendlog.spark.planning.queues import QueueLog, find_queue
from appendlog.spark.source.loss import LossPolicy
from appendlog.spark.source.read_options import ReadOptions
from appendlog.spark.source.stream_offsets import QueueRange

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class _Cut:
    """A range that the log has."""

    log: QueueLog
    reader: LogReader
    start_offset: int
    end_offset: int

    def pieces(self, split_bytes: int) -> list[LogPiece]:
        splits = self.reader.plan_splits(self.start_offset, self.end_offset, split_bytes)
        self.reader.close()
        return [LogPiece(self.log, split) for split in splits]


def plan_ranges(
    options: ReadOptions, ranges: Iterable[QueueRange], loss: LossPolicy
) -> list[Partition]:
    """Return what each task of a batch reads. Reads definitions and indexes, but no messages.

    Args:
        options: Place of the logs, and size of partitions.
        ranges: Ranges of the batch, whatever the stream subscribes to now.
        loss: Gets reports of offsets that are gone.

    Raises:
        StreamDataLossError: A part of the ranges is gone, and losses are fatal.
        LogError: A log cannot be read.
        OSError: A file cannot be read.
    """
    wanted = list(ranges)
    for _ in range(_TRIES):
        try:
            return _plan(options, wanted, loss)
        except OffsetOutOfRangeError:  # retention removed a segment since the listing
            continue
    return _plan(options, wanted, loss)


def _plan(options: ReadOptions, ranges: Iterable[QueueRange], loss: LossPolicy) -> list[Partition]:
    cuts = []
    for each in ranges:
        log = _find(options, each, loss)
        if log is not None:
            # Closed at once: there may be more logs than files that a process may have open.
            with open_reader(log) as reader:
                cuts += _cut(log, reader, each, loss)
    return plan_partitions(
        lambda split_bytes: [piece for cut in cuts for piece in cut.pieces(split_bytes)],
        options.partition_bytes,
        options.min_partitions,
    )


def _find(options: ReadOptions, wanted: QueueRange, loss: LossPolicy) -> QueueLog | None:
    try:
        log = find_queue(options.storage_path, options.vhost, wanted.queue, options.store_options)
    except QueueNotFoundError:
        loss.deleted(wanted.queue, wanted.incarnation)
        return None
    if log.incarnation != wanted.incarnation:
        loss.replaced(wanted.queue, wanted.incarnation, log.incarnation)
        return None
    return log


def _cut(log: QueueLog, reader: LogReader, wanted: QueueRange, loss: LossPolicy) -> list[_Cut]:
    start = max(wanted.start_offset, reader.log_start_offset)
    end = min(wanted.end_offset, reader.log_end_offset)
    if start > wanted.start_offset:
        loss.removed(log.queue, wanted.start_offset, min(start, wanted.end_offset))
    if end < wanted.end_offset:
        loss.shortened(log.queue, wanted.end_offset, reader.log_end_offset)
    return [_Cut(log, reader, start, end)] if start < end else []
