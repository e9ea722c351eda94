"""Folders by day or hour: ranges of a log cut where a new one begins, in UTC.

Append times ascend in a segment, so all of its messages of a day are one range of offsets, and
neighbours of one day become one range. The cut is found through the index; one message is read for
each, and for each segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from appendlog.reader import LogReader

_NS: Final = 10**9
_LOOK_OFFSETS: Final = 64


class PartitionBy(StrEnum):
    """How long the messages of one folder were appended."""

    DAY = "day"
    HOUR = "hour"

    @property
    def length_ns(self) -> int:
        """Return it in nanoseconds."""
        return (86_400 if self is PartitionBy.DAY else 3_600) * _NS

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that its folders stand for."""
        return ("date",) if self is PartitionBy.DAY else ("date", "hour")

    def folder(self, timestamp_ns: int) -> str:
        """Return the folder of a time: `date=2026-11-21/` or `date=2026-11-21/hour=09/`."""
        moment = datetime.fromtimestamp(timestamp_ns // _NS, UTC)
        return f"{moment:date=%Y-%m-%d/}{'' if self is PartitionBy.DAY else f'{moment:hour=%H/}'}"


@dataclass(frozen=True, slots=True)
class FolderRange:
    """Offsets `[start, end)` whose files belong into one folder.

    Attributes:
        folder: Below the folder of the queue; ends with `/`, or is empty.
        start: Inclusive.
        end: Exclusive.
    """

    folder: str
    start: int
    end: int


def cut_by_time(
    reader: LogReader, start: int, end: int, partition_by: PartitionBy | None
) -> Iterator[FolderRange]:
    """Cut a range of offsets into those of one folder each, in order; they tile it.

    Offsets that the log does not have go with what is in front of them.

    Args:
        reader: Of the log.
        start: Inclusive; in the log.
        end: Exclusive; in the log.
        partition_by: None makes one range, of no folder.

    Raises:
        CorruptRecordError: Damage where a cut is looked for, unless the reader skips it.
        OffsetOutOfRangeError: Retention removed a segment meanwhile.
    """
    if partition_by is None:
        yield FolderRange("", start, end)
        return
    folder, begin = "", start
    for found, at in _folders(reader, start, end, partition_by):
        # Where no message stands before it there would be no file.
        if folder and found != folder:
            yield FolderRange(folder, begin, at)
            begin = at
        folder = found
    yield FolderRange(folder, begin, end)


def _folders(
    reader: LogReader, start: int, end: int, partition_by: PartitionBy
) -> Iterator[tuple[str, int]]:
    """Yield the folders of `[start, end)` and from where on messages belong there, in order."""
    length_ns = partition_by.length_ns
    for low, high in reader.segment_ranges(start, end):
        while low < high:
            timestamp_ns = _first_time_ns(reader, low, high)
            if timestamp_ns is None:
                break
            yield partition_by.folder(timestamp_ns), low
            next_ns = (timestamp_ns // length_ns + 1) * length_ns
            low = max(reader.first_offset_at(next_ns, (low, high)), low + 1)


def _first_time_ns(reader: LogReader, start: int, end: int) -> int | None:
    """Return when the first message of `[start, end)` was appended; None: there is none."""
    look = _LOOK_OFFSETS
    while start < end:
        stop = min(start + look, end)
        for batch in reader.read(start, stop):
            if batch.parts:
                return int(batch.timestamps_ns[0])
        start, look = stop, look * 16
    return None
