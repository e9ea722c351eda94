"""Position where a group begins in a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

_SECOND_NS = 1_000_000_000


class Readable(Protocol):
    """Log in which a position is looked up."""

    log_end_offset: int

    @property
    def log_start_offset(self) -> int:
        """Lowest offset, inclusive."""

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the offset of the first record at or after a time."""


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a log that is looked up later; made by the attributes and methods of this class.

    Attributes:
        description: Description for people.
        find: Returns the offset in a log, within its start and end.
    """

    description: str
    find: Callable[[Readable], int]

    EARLIEST: ClassVar[Position]
    """Lowest offset that the log still has."""
    LATEST: ClassVar[Position]
    """Next record that is appended."""

    @classmethod
    def at_offset(cls, offset: int) -> Position:
        """Begin at an offset; before the log's start or after its end, begin there.

        Raises:
            ValueError: The offset is negative.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        return cls(f"offset {offset}", lambda log: _within(log, offset))

    @classmethod
    def at_time(cls, moment: int | datetime) -> Position:
        """Return the position of the first record that was appended at or after a time.

        Args:
            moment: Nanoseconds since 1970 UTC, or a datetime with a time zone.

        Raises:
            ValueError: The datetime has no time zone.
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
        """Begin this many offsets before the end, or at the log's start if it has fewer.

        Raises:
            ValueError: The count is negative.
        """
        if count < 0:
            raise ValueError(f"count {count} is negative")
        return cls(f"last {count}", lambda log: _within(log, log.log_end_offset - count))


def check_position(position: object) -> None:
    """Check that an argument is a position.

    Raises:
        TypeError: The argument is not a position; the message gives examples.
    """
    if not isinstance(position, Position):
        raise TypeError(
            f"{position!r} is not a Position: use one like Position.EARLIEST or "
            "Position.at_offset(5)"
        )


def _within(log: Readable, offset: int) -> int:
    return min(max(offset, log.log_start_offset), log.log_end_offset)


FIRST_RECORD = Position("first record", lambda log: 0)
"""Start in a log that appeared later: counts records that retention removed unread."""

Position.EARLIEST = Position("earliest", lambda log: log.log_start_offset)
Position.LATEST = Position("latest", lambda log: log.log_end_offset)
