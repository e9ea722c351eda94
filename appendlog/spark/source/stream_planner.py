"""Decides where the next batch of a stream ends.

It works on the driver, for the life of one query. A batch reads what is between two offsets
(`stream_offsets.ranges_between`); this module decides the second one.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from appendlog.errors import OffsetOutOfRangeError
from appendlog.spark.objects.location import Location
from appendlog.spark.planning.bounds import resolve_range
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.source.admission import Limits, TriggerDelay, share_out
from appendlog.spark.source.backlog import Backlog, measure_backlog
from appendlog.spark.source.log_ends import LogEnds, LogSpan
from appendlog.spark.source.loss import LossPolicy
from appendlog.spark.source.read_options import OnDamage
from appendlog.spark.source.stream_offsets import QueuePlace, StreamOffsets
from appendlog.spark.source.stream_options import StreamOptions
from appendlog.spark.source.stream_queues import DISCOVERY_SECONDS, StreamQueues

logger = logging.getLogger("appendlog.spark.source.stream_planner")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Unread offsets of one log: `[place.offset, end_offset)`.

    Attributes:
        log: Log to read.
        place: Position of the stream in the log.
        end_offset: End of the log, exclusive; at or above the position.
    """

    log: QueueLog
    place: QueuePlace
    end_offset: int


class StreamPlanner:
    """Plans the batches of one query; not thread-safe.

    Args:
        options: Options of the query.
        loss: Gets reports of offsets and queues that are gone.
        clock: Returns seconds since any moment; never goes back.
    """

    def __init__(
        self,
        options: StreamOptions,
        loss: LossPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._loss = loss
        self._queues = StreamQueues(options.shared, clock)
        is_in_store = Location.of(options.shared.storage_path) is not None
        self._ends = LogEnds(clock, DISCOVERY_SECONDS if is_in_store else 0.0)
        self._delay = TriggerDelay(clock)
        self._initial: StreamOffsets | None = None
        self._target: dict[UUID, int] | None = None

    def initial(self) -> StreamOffsets:
        """Return where a stream without a checkpoint begins; always the same.

        Raises:
            StorageNotFoundError: There is no data directory.
            QueueNotFoundError: A queue that was named does not exist.
            BoundError: The bounds are of other queues.
            RangeError: The start is after the durable end.
            StreamDataLossError: An offset that the user asked for is gone, and losses are fatal.
        """
        if self._initial is None:
            logs = self._queues.choose()
            self._options.starting.check([log.queue for log in logs])
            places = {log.queue: self._first_place(log) for log in logs}
            self._initial = StreamOffsets(self._options.shared.vhost, places)
        return self._initial

    def fix_target(self) -> None:
        """Make the present ends of the logs the end of the stream.

        Raises:
            OSError: A file cannot be read.
        """
        self._target = {
            log.incarnation: self._ends.span_of(log).end_offset for log in self._queues.list_now()
        }

    def latest(
        self, start: StreamOffsets, limits: Limits | None
    ) -> tuple[StreamOffsets, list[Waiting]]:
        """Return the end of the batch that begins at `start`, and the ends of the logs.

        The batch ends at `start` if there is nothing to read, or too little yet.

        Args:
            start: End of the last batch.
            limits: Limits of the batch; None for no limits.

        Raises:
            StreamDataLossError: The next offsets are gone, and losses are fatal.
            LogError: A log cannot be read.
            OSError: A file cannot be read.
        """
        waiting = self._waiting(start)
        takes = {each.log.queue: each.end_offset - each.place.offset for each in waiting}
        if limits is not None:
            is_endless = self._target is None
            if is_endless and self._delay.is_waiting(sum(takes.values()), limits):
                return start, waiting
            takes = _admitted(waiting, takes, limits)
        places = {
            each.log.queue: QueuePlace(
                each.place.incarnation,
                each.place.start_offset,
                each.place.offset + takes[each.log.queue],
            )
            for each in waiting
        }
        return StreamOffsets(start.vhost, places), waiting

    def _waiting(self, start: StreamOffsets) -> list[Waiting]:
        """Return the unread offsets of each log, by queue."""
        spans = self._spans(self._queues.logs())
        if self._has_changed_logs(start, spans):
            # The remembered queues may be old, or one is being deleted at this moment.
            spans = self._spans(self._queues.list_now())
        self._ends.keep_only([log for log, _ in spans])
        for queue, place in self._absent(start, spans):
            self._loss.deleted(queue, place.incarnation)
        found = (self._one(start.places.get(log.queue), log, span) for log, span in spans)
        return [each for each in found if each is not None]

    def _spans(self, logs: list[QueueLog]) -> list[tuple[QueueLog, LogSpan]]:
        return [(log, self._ends.span_of(log)) for log in logs]

    def _absent(
        self, start: StreamOffsets, spans: list[tuple[QueueLog, LogSpan]]
    ) -> list[tuple[str, QueuePlace]]:
        """Return the queues that were read and are gone, if the query still wants them."""
        present = {log.queue for log, _ in spans}
        return [
            (queue, place)
            for queue, place in start.places.items()
            if queue not in present and self._queues.is_wanted(queue)
        ]

    def _has_changed_logs(
        self, start: StreamOffsets, spans: list[tuple[QueueLog, LogSpan]]
    ) -> bool:
        """Return whether a log of the start is absent, another one, or shorter than it was read."""
        known = ((start.places.get(log.queue), log, span) for log, span in spans)
        return bool(self._absent(start, spans)) or any(
            place.incarnation != log.incarnation or place.offset > span.end_offset
            for place, log, span in known
            if place is not None
        )

    def _one(self, known: QueuePlace | None, log: QueueLog, span: LogSpan) -> Waiting | None:
        end = span.end_offset
        if self._target is not None:
            if log.incarnation not in self._target:
                # This queue is newer than the fixed end: the next run reads it.
                return None if known is None else Waiting(log, known, known.offset)
            end = min(end, self._target[log.incarnation])
        place = self._next_place(known, log, span)
        return Waiting(log, place, max(end, place.offset))

    def _next_place(self, known: QueuePlace | None, log: QueueLog, span: LogSpan) -> QueuePlace:
        start = span.start_offset
        if known is None:
            if start > 0:
                logger.warning(
                    "queue %r is new to the stream, which reads it from the beginning of its "
                    "log at offset %d",
                    log.queue,
                    start,
                )
            return QueuePlace(log.incarnation, start, start)
        if known.incarnation != log.incarnation:
            self._loss.replaced(log.queue, known.incarnation, log.incarnation)
            return QueuePlace(log.incarnation, start, start)
        if known.offset < start:
            self._loss.removed(log.queue, known.offset, start)
            return QueuePlace(known.incarnation, known.start_offset, start)
        if known.offset > span.end_offset:
            self._loss.shortened(log.queue, known.offset, span.end_offset)
        return known

    def _first_place(self, log: QueueLog) -> QueuePlace:
        shared = self._options.shared
        with open_reader(log, skip_damage=shared.on_damage is not OnDamage.FAILFAST) as reader:
            found = resolve_range(
                reader,
                log.queue,
                starting=self._options.starting.of(log.queue),
                if_none_later=shared.if_none_later,
            )
        if found.lost is not None:
            self._loss.removed(log.queue, *found.lost)
        return QueuePlace(log.incarnation, found.start_offset, found.start_offset)


def _admitted(waiting: list[Waiting], takes: dict[str, int], limits: Limits) -> dict[str, int]:
    """Return the number of offsets of each queue within the limits."""
    if limits.offsets_max is not None:
        takes = share_out(limits.offsets_max, takes)
    if limits.bytes_max is None:
        return takes
    backlogs = {
        each.log.queue: _backlog(each, takes[each.log.queue], limits.bytes_max) for each in waiting
    }
    shares = share_out(limits.bytes_max, {queue: b.size_bytes for queue, b in backlogs.items()})
    return {
        queue: backlog.end_within(shares[queue]) - backlog.start_offset
        for queue, backlog in backlogs.items()
    }


def _backlog(waiting: Waiting, take: int, enough_bytes: int) -> Backlog:
    start = waiting.place.offset
    with open_reader(waiting.log) as reader:
        try:
            return measure_backlog(reader, start, start + take, enough_bytes)
        except OffsetOutOfRangeError:
            # Retention has removed a segment: planning the batch reports what is missing.
            return Backlog(start, [(start + take, 0)])
