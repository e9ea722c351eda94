"""Plans what the tasks of a batch query read; fixed once, when Spark plans the query.

The plan takes no leases: Spark may run a plan at any time and any number of times, and does not
report its end. Tasks find out what retention has removed since.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from appendlog.errors import OffsetOutOfRangeError
from appendlog.reader import LogReader
from appendlog.spark.errors import OptionError, ReadLossError
from appendlog.spark.planning.bounds import EARLIEST, LATEST, Bounds, resolve_range
from appendlog.spark.planning.choosing import choose_queues
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.packing import LogPiece, plan_partitions
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.settlement import Include, OffsetChoice, ReadOnce, read_settled
from appendlog.spark.source.log_partition import LogPartition
from appendlog.spark.source.options import GivenOptions, Reading
from appendlog.spark.source.read_options import OnDamage, ReadOptions, bounds_of, read_options
from appendlog.spark.source.row_bounds import RowBounds, clip
from metadata.name_texts import replaced_text

logger = logging.getLogger("appendlog.spark.source.batch_plan")

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Plan of a batch query; picklable.

    Attributes:
        shared: Options that streams have too.
        starting: Start of the range in each queue.
        ending: End of the range in each queue.
        include: Messages to read, by whether they are settled.
        takes_filters: Whether filters of the query may narrow the ranges.
    """

    shared: ReadOptions
    starting: Bounds
    ending: Bounds
    include: Include
    takes_filters: bool = False


@dataclass(frozen=True, slots=True)
class _Cut:
    """A range of a log; never empty."""

    log: QueueLog
    reader: LogReader
    start_offset: int
    end_offset: int
    choice: OffsetChoice | None

    def pieces(self, split_bytes: int) -> list[LogPiece]:
        splits = self.reader.plan_splits(self.start_offset, self.end_offset, split_bytes)
        self.reader.close()
        return [
            LogPiece(self.log, split)
            for split in splits
            if self.choice is None or self.choice.count(split.start_offset, split.end_offset)
        ]


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Parse the options of `spark.read`.

    Raises:
        OptionError: An option is unknown, missing or malformed, or contradicts another one.
        ColumnError: An option names a column that does not exist.
        StoreError: A URL names no place in a store.
    """
    given = GivenOptions(options, Reading.BATCH)
    starting = bounds_of(given, "starting") or Bounds(EARLIEST)
    ending = bounds_of(given, "ending") or Bounds(LATEST)
    if LATEST in starting.all:
        raise OptionError("startingOffsets", "latest (-1) is the end: a batch would have no rows")
    if EARLIEST in ending.all:
        raise OptionError("endingOffsets", "earliest (-2) is the beginning: no rows could be read")
    include = Include(given.choice("include", Include.ALL, tuple(Include)))
    takes_filters = given.flag("pushDownFilters", default=False)
    return BatchOptions(read_options(given), starting, ending, include, takes_filters)


def plan_batch(options: BatchOptions, wanted: RowBounds) -> list[LogPartition]:
    """Return what each task reads. Reads definitions, indexes and checkpoints, but no messages.

    Args:
        options: Options of the query.
        wanted: Bounds outside of which the query needs no rows.

    Raises:
        AmqplogError: There is no such data directory, queue or range, or a part of it is gone.
        LogError: A log cannot be read.
        OSError: A file cannot be read.
    """
    for _ in range(_TRIES):
        try:
            return _plan(options, wanted)
        except OffsetOutOfRangeError:  # retention removed a segment since the listing
            continue
    return _plan(options, wanted)


def _plan(options: BatchOptions, wanted: RowBounds) -> list[LogPartition]:
    shared = options.shared
    logs = choose_queues(
        shared.storage_path, shared.vhost, shared.subscription, shared.store_options
    )
    names = [log.queue for log in logs]
    for bounds in (options.starting, options.ending):
        bounds.check(names)
    checkpoint = ReadOnce()
    cuts = [
        cut
        for log in logs
        if wanted.has_topic(replaced_text(log.queue))
        and (cut := _cut(log, options, wanted, checkpoint)) is not None
    ]
    choices = {cut.log: cut.choice for cut in cuts}
    partitions = plan_partitions(
        lambda split_bytes: [piece for cut in cuts for piece in cut.pieces(split_bytes)],
        shared.partition_bytes,
        shared.min_partitions,
    )
    return [LogPartition(partition, _choices(partition, choices)) for partition in partitions]


def _choices(
    pieces: Sequence[LogPiece], choices: Mapping[QueueLog, OffsetChoice | None]
) -> list[OffsetChoice | None]:
    """Return the wanted offsets of each piece."""
    found = []
    for piece in pieces:
        choice = choices[piece.log]
        split = piece.split
        if choice is not None:
            choice = choice.clip(split.start_offset, split.end_offset)
        found.append(choice)
    return found


def _cut(
    log: QueueLog, options: BatchOptions, wanted: RowBounds, checkpoint: ReadOnce
) -> _Cut | None:
    """Return the range of a log to read; tries again if retention removes a segment."""
    skips_damage = options.shared.on_damage is not OnDamage.FAILFAST
    for _ in range(_TRIES):
        reader = open_reader(log, skip_damage=skips_damage)
        try:
            return _cut_once(log, reader, options, wanted, checkpoint)
        except (OffsetOutOfRangeError, FileNotFoundError):
            continue
        finally:
            reader.close()
    with open_reader(log, skip_damage=skips_damage) as reader:
        return _cut_once(log, reader, options, wanted, checkpoint)


def _cut_once(
    log: QueueLog,
    reader: LogReader,
    options: BatchOptions,
    wanted: RowBounds,
    checkpoint: ReadOnce,
) -> _Cut | None:
    shared = options.shared
    found = resolve_range(
        reader,
        log.queue,
        options.starting.of(log.queue),
        options.ending.of(log.queue),
        shared.if_none_later,
    )
    since_ns, until_ns = wanted.times_ns
    times = (
        None if since_ns is None else reader.first_offset_at(since_ns),
        None if until_ns is None else reader.end_offset_before(until_ns),
    )
    narrow = RowBounds(offsets=wanted.offsets).within(offsets=times).offsets
    if found.lost is not None:
        # Messages from before the time that is asked for are no loss.
        is_before = times[0] is not None and times[0] > reader.log_start_offset
        first, last = (0, 0) if is_before else clip(*found.lost, narrow)
        if first < last:
            _report_loss(log, first, last, is_fatal=shared.is_loss_fatal)
    start, end = clip(found.start_offset, found.end_offset, narrow)
    if start == end:
        return None
    choice = None
    if options.include is not Include.ALL:
        choice = read_settled(shared.storage_path, log, checkpoint).choose(options.include, end)
    return _Cut(log, reader, start, end, choice)


def _report_loss(log: QueueLog, start: int, end: int, *, is_fatal: bool) -> None:
    loss = ReadLossError(log.queue, start, end)
    if is_fatal:
        raise loss
    logger.warning("%s", loss)
