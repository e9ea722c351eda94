"""Turns the start and the end of a range, as users give them, into offsets of a log.

Users write them as for Kafka's source: `earliest`, `latest`, -2 and -1 for these two, an offset,
JSON for each queue (`{"orders": {"0": 123}}`), or a time. At the start of a range, a time means the
lowest offset that was appended at or after it. At the end, it means the end of what was appended
before it. Both are the same offset, unless append times step back because a clock was wrong. Then a
range between two times has all messages of that time, and those that stand among them.

A range is fixed once, against one view of a log, and never passes the durable end. So appends of
the broker during a job change nothing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Final, Self

from appendlog.reader import LogReader
from appendlog.spark.errors import BoundError, RangeError


class Place(Enum):
    """Meaning of a bound's value."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Bound:
    """Start or end of a range, not yet of a certain log; picklable.

    Attributes:
        place: Meaning of `value`.
        value: An offset, or nanoseconds since 1970 in UTC; 0 for the two ends of a log.
    """

    place: Place
    value: int = 0

    @classmethod
    def at_offset(cls, offset: int) -> Self:
        """Return the bound at an offset."""
        return cls(Place.OFFSET, offset)

    @classmethod
    def at_time(cls, timestamp_ns: int) -> Self:
        """Return the bound at a time, nanoseconds since 1970 in UTC."""
        return cls(Place.TIME, timestamp_ns)

    @property
    def is_latest(self) -> bool:
        """Whether it is the end of a log, wherever that is."""
        return self.place is Place.LATEST


EARLIEST: Final = Bound(Place.EARLIEST)
LATEST: Final = Bound(Place.LATEST)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Starts, or ends, of the ranges of several queues; picklable.

    Attributes:
        everywhere: Bound of all queues; None if each queue has its own.
        by_queue: Bound of each queue, if each has its own.
    """

    everywhere: Bound | None
    by_queue: Mapping[str, Bound] = field(default_factory=dict)

    @property
    def all(self) -> Collection[Bound]:
        """Return the bounds, each once."""
        return set(self.by_queue.values()) if self.everywhere is None else {self.everywhere}

    def of(self, queue: str) -> Bound:
        """Return the bound of one queue.

        Raises:
            BoundError: The queue has none.
        """
        if self.everywhere is not None:
            return self.everywhere
        if queue not in self.by_queue:
            raise BoundError(f"no offset for queue {queue!r}: write -2 for earliest, -1 for latest")
        return self.by_queue[queue]

    def check(self, queues: Collection[str]) -> None:
        """Check that there are bounds of exactly these queues, as Kafka requires.

        Raises:
            BoundError: A queue has no bound, or a bound is of another queue.
        """
        for queue in queues:
            self.of(queue)
        known = set(queues)
        for queue in self.by_queue:
            if queue not in known:
                raise BoundError(f"queue {queue!r} is not among those that are read")


class IfNoneLater(StrEnum):
    """Meaning of a starting time that is after all messages; Kafka's `...TimestampStrategy`."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class ResolvedRange:
    """Offsets `[start_offset, end_offset)` of a log; the log has all of them, durably.

    Attributes:
        start_offset: Inclusive.
        end_offset: Exclusive; never below the start.
        lost: Offsets that were asked for and that retention has removed; None if there are none.
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
    """Return the offset that a bound means; it may be outside of the log.

    Args:
        reader: Reader of the log.
        queue: Name of the queue, for errors.
        bound: Bound that was asked for.
        if_none_later: Meaning of a starting time that is after all messages.
        is_end: Whether the bound is the end of the range, exclusive.

    Raises:
        RangeError: Nothing was appended at or after the time, and `if_none_later` is ERROR.
        CorruptRecordError: The search for the time met damage, and the reader does not skip it.
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
        # The first one is larger in a log with gaps: it is the message after the gap.
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
    """Return the offsets between two bounds that a log has durably.

    An end after the durable end becomes the durable end. `lost` has what retention removed.

    Args:
        reader: Reader of the log.
        queue: Name of the queue, for errors.
        starting: Start of the range, inclusive.
        ending: End of the range, exclusive.
        if_none_later: Meaning of a starting time that is after all messages. An ending time after
            all messages means the durable end.

    Raises:
        RangeError: The start is after the durable end, or after the end that is asked for.
        CorruptRecordError: The search for a time met damage, and the reader does not skip it.
        OSError: A file cannot be read.
    """
    if starting.place is ending.place and starting.value > ending.value:
        first, last = (_text(bound) for bound in (starting, ending))
        raise RangeError(f"the range of queue {queue!r} begins at {first}, after its end {last}")
    low, high = reader.log_start_offset, reader.log_end_offset
    start = resolve_offset(reader, queue, starting, if_none_later)
    if start > high:
        raise RangeError(
            f"offset {start} of queue {queue!r} is after the durable end {high} of its log"
        )
    end = min(resolve_offset(reader, queue, ending, IfNoneLater.LATEST, is_end=True), high)
    if start >= end:
        return ResolvedRange(max(start, low), max(start, low))
    lost = (start, min(low, end)) if start < low else None
    return ResolvedRange(max(start, low), max(end, low), lost)


def _text(bound: Bound) -> str:
    return _time_text(bound.value) if bound.place is Place.TIME else str(bound.value)


def _time_text(timestamp_ns: int) -> str:
    """Return a time in the form in which users write times."""
    seconds, ns = divmod(timestamp_ns, 10**9)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ns} ns"
    return moment.replace(microsecond=ns // 1000).isoformat()
