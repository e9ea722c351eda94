"""Where to begin and where to end, and which offsets of a log that is.

What can be written is Kafka's: `earliest`, `latest`, -2 and -1 for the same, a number, JSON for
each queue (`{"orders": {"0": 123}}`), times. A time where a range begins stands for the lowest
offset that was appended at or after it, and where it ends for the end of what was appended before
it. These are the same offset, unless append times step back (a clock that was wrong): then a range
between two times has all that was appended between them, and what stands among that.

A range is fixed once, against one view of a log, and ends at its durable end at the latest: what
the broker appends meanwhile changes nothing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Final, Self

from appendlog.reader import LogReader
from appendlog.spark.errors import BoundError, RangeError


class Place(Enum):
    """What a bound is counted from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range, of whichever log; picklable.

    Attributes:
        place: What it is.
        value: An offset, or nanoseconds since 1970 UTC; 0 for the two ends of a log.
    """

    place: Place
    value: int = 0

    @classmethod
    def at_offset(cls, offset: int) -> Self:
        """Return an offset."""
        return cls(Place.OFFSET, offset)

    @classmethod
    def at_time(cls, timestamp_ns: int) -> Self:
        """Return the first offset at or after a time, nanoseconds since 1970 UTC."""
        return cls(Place.TIME, timestamp_ns)


EARLIEST: Final = Bound(Place.EARLIEST)
LATEST: Final = Bound(Place.LATEST)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The same end of the ranges of several queues; picklable.

    Attributes:
        everywhere: Of all queues; None when each has its own.
        by_queue: Of each queue otherwise.
    """

    everywhere: Bound | None
    by_queue: Mapping[str, Bound] = field(default_factory=dict)

    @property
    def all(self) -> Collection[Bound]:
        """Return the different ones."""
        return set(self.by_queue.values()) if self.everywhere is None else {self.everywhere}

    def of(self, queue: str) -> Bound:
        """Return that of one queue.

        Raises:
            BoundError: It has none.
        """
        if self.everywhere is not None:
            return self.everywhere
        if queue not in self.by_queue:
            raise BoundError(f"no offset for queue {queue!r}: write -2 for earliest, -1 for latest")
        return self.by_queue[queue]

    def check(self, queues: Collection[str]) -> None:
        """Refuse bounds that are not of exactly these queues, as Kafka does.

        Raises:
            BoundError: One of the queues has none, or there is one of another queue.
        """
        for queue in queues:
            self.of(queue)
        known = set(queues)
        for queue in self.by_queue:
            if queue not in known:
                raise BoundError(f"queue {queue!r} is not among those that are read")


class IfNoneLater(StrEnum):
    """What a time means behind which nothing was appended yet: Kafka's `...Strategy`."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class ResolvedRange:
    """The offsets `[start_offset, end_offset)` of a log, all of them in it and durable.

    Attributes:
        start_offset: Inclusive.
        end_offset: Exclusive; never below the start.
        lost: Offsets that were asked for, but are below the beginning of the log: retention took
            them. None when nothing is.
    """

    start_offset: int
    end_offset: int
    lost: tuple[int, int] | None = None


def resolve_offset(
    reader: LogReader,
    queue: str,
    bound: Bound,
    if_none_later: IfNoneLater,
    *,
    is_end: bool = False,
) -> int:
    """Return the offset that a bound stands for, in or outside of the log.

    Args:
        reader: Of the log.
        queue: Whose it is, for errors.
        bound: What was asked for.
        if_none_later: What a starting time behind all messages means.
        is_end: Whether the range ends there, exclusive.

    Raises:
        RangeError: Nothing was appended at or after the time, and that is to be an error.
        CorruptRecordError: Damage where the time is looked for, unless the reader skips it.
        OSError: A file cannot be read.
    """
    match bound.place:
        case Place.EARLIEST:
            return reader.log_start_offset
        case Place.LATEST:
            return reader.log_end_offset
        case Place.OFFSET:
            return bound.value
    if is_end:
        # Never less: of a log with gaps it is the first message behind them.
        return max(reader.first_offset_at(bound.value), reader.end_offset_before(bound.value))
    offset = reader.first_offset_at(bound.value)
    if offset >= reader.log_end_offset and if_none_later is IfNoneLater.ERROR:
        raise RangeError(
            f"queue {queue!r} has no message from {_time_text(bound.value)} or later; "
            "startingOffsetsByTimestampStrategy=latest reads nothing of it then"
        )
    return offset


def resolve_range(
    reader: LogReader,
    queue: str,
    starting: Bound = EARLIEST,
    ending: Bound = LATEST,
    if_none_later: IfNoneLater = IfNoneLater.ERROR,
) -> ResolvedRange:
    """Return the offsets between two bounds that are in a log and durable.

    An end behind the durable end is the durable end. What retention took is told by `lost`.

    Args:
        reader: Of the log.
        queue: Whose it is, for errors.
        starting: Inclusive.
        ending: Exclusive.
        if_none_later: What a starting time behind all messages means; an ending one means the end.

    Raises:
        RangeError: The start is behind the durable end, or behind the end that is asked for.
        CorruptRecordError: Damage where a time is looked for, unless the reader skips it.
        OSError: A file cannot be read.
    """
    if starting.place is ending.place and starting.value > ending.value:
        first, last = (_text(bound) for bound in (starting, ending))
        raise RangeError(f"the range of queue {queue!r} begins at {first}, behind its end {last}")
    low, high = reader.log_start_offset, reader.log_end_offset
    start = resolve_offset(reader, queue, starting, if_none_later)
    if start > high:
        raise RangeError(
            f"offset {start} of queue {queue!r} is behind the durable end {high} of its log"
        )
    end = min(resolve_offset(reader, queue, ending, IfNoneLater.LATEST, is_end=True), high)
    if start >= end:
        return ResolvedRange(max(start, low), max(start, low))
    lost = (start, min(low, end)) if start < low else None
    return ResolvedRange(max(start, low), max(end, low), lost)


def _text(bound: Bound) -> str:
    return _time_text(bound.value) if bound.place is Place.TIME else str(bound.value)


def _time_text(timestamp_ns: int) -> str:
    """Return a time as a user can write it."""
    seconds, ns = divmod(timestamp_ns, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ns} ns"
    return moment.replace(microsecond=ns // 1000).isoformat()
