"""Where a group is to begin in a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

_SECOND_NS = 1_000_000_000


class Readable(Protocol):
    """What a position is looked up in."""

    log_end_offset: int

    @property
    def log_start_offset(self) -> int:
        """Lowest offset, inclusive."""

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the offset of the first record at or after a time."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log, not yet looked up: see the class attributes and methods that make one.

    Attributes:
        description: For people.
        find: Returns the offset in one log; not below its start, and not above its end.
    """

    description: str
    find: Callable[[Readable], int]

    EARLIEST: ClassVar[Position]
    """The lowest offset that the log still has."""
    LATEST: ClassVar[Position]
    """What will be appended next."""

    @classmethod
    def at_offset(cls, offset: int) -> Position:
        """Begin at an offset, or where the log begins or ends if it does not reach that.

        Raises:
            ValueError: It is negative.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        return cls(f"offset {offset}", lambda log: _within(log, offset))

    @classmethod
    def at_time(cls, moment: int | datetime) -> Position:
        """Begin with the first record at or after a time.

        Args:
            moment: Nanoseconds since 1970 UTC, or a datetime that knows its time zone.

        Raises:
            ValueError: The datetime knows no time zone.
        """
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                raise ValueError(f"time {moment} has no time zone")
            seconds = int(moment.timestamp() // 1)
            moment = seconds * _SECOND_NS + moment.microsecond * 1_000
        nanoseconds = moment
        return cls(f"time {nanoseconds}", lambda log: log.first_offset_at(nanoseconds))

    @classmethod
    def last(cls, count: int) -> Position:
        """Begin so many offsets before the end, or where the log begins if it has fewer.

        Raises:
            ValueError: The count is negative.
        """
        if count < 0:
            raise ValueError(f"count {count} is negative")
        return cls(f"last {count}", lambda log: _within(log, log.log_end_offset - count))


def check_position(position: object) -> None:
    """Check that something is a position.

    Raises:
        TypeError: It is not; the message shows some.
    """
    if not isinstance(position, Position):
        raise TypeError(
            f"{position!r} is no Position: one as Position.EARLIEST or Position.at_offset(5) is "
            "expected"
        )


def _within(log: Readable, offset: int) -> int:
    return min(max(offset, log.log_start_offset), log.log_end_offset)


FIRST_RECORD = Position("first record", lambda log: 0)
"""Where a group is in a log that appeared later: retention may have taken some of it unread."""

Position.EARLIEST = Position("earliest", lambda log: log.log_start_offset)
Position.LATEST = Position("latest", lambda log: log.log_end_offset)
