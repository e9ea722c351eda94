"""Cuts ranges of a log at the borders of days or hours, in UTC, for folders by time.

Append times ascend in a segment, so its messages of a day are one range of offsets. Neighbouring
ranges of one day become one. The index leads to each cut; this reads one message for each cut and
each segment.
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
    """Unit of time of a folder."""

    DAY = "day"
    HOUR = "hour"

    @property
    def length_ns(self) -> int:
        """Return the unit in nanoseconds."""
        return (86_400 if self is PartitionBy.DAY else 3_600) * _NS

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that Spark makes of the folders."""
        return ("date",) if self is PartitionBy.DAY else ("date", "hour")

    def folder(self, timestamp_ns: int) -> str:
        """Return the folder of a time: `date=2026-11-21/` or `date=2026-11-21/hour=09/`."""
        moment = datetime.fromtimestamp(timestamp_ns // _NS, UTC)
        return f"{moment:date=%Y-%m-%d/}{'' if self is PartitionBy.DAY else f'{moment:hour=%H/}'}"


@dataclass(frozen=True, slots=True)
class FolderRange:
    """Offsets `[start, end)` whose files belong into one folder.

    Attributes:
        folder: Path below the folder of the queue; ends with `/`, or is empty.
        start: First offset.
        end: End of the range, exclusive.
    """

    folder: str
    start: int
    end: int


def cut_by_time(
    reader: LogReader, start: int, end: int, partition_by: PartitionBy | None
) -> Iterator[FolderRange]:
    """Cut a range of offsets into one range for each folder, in order, without holes.

    Offsets that the log does not have belong to the folder of the message before them.

    Args:
        reader: Reader of the log.
        start: First offset; in the log.
        end: End of the range, exclusive; in the log.
        partition_by: Unit of the folders; None for one range without a folder.

    Raises:
        CorruptRecordError: The search for a cut met damage, and the reader does not skip it.
        OffsetOutOfRangeError: Retention has removed a segment since.
    """
    if partition_by is None:
        yield FolderRange("", start, end)
        return
    folder = ""
    begin = start
    for found, at in _folders(reader, start, end, partition_by):
        # A range without messages before the cut would have no file.
        if folder and found != folder:
            yield FolderRange(folder, begin, at)
            begin = at
        folder = found
    yield FolderRange(folder, begin, end)


def _folders(
    reader: LogReader, start: int, end: int, partition_by: PartitionBy
) -> Iterator[tuple[str, int]]:
    """Yield the folders of `[start, end)`, each with its first offset, in order."""
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
    """Return the append time of the first message of `[start, end)`; None if there is none."""
    look = _LOOK_OFFSETS
    while start < end:
        stop = min(start + look, end)
        for batch in reader.read(start, stop):
            if batch.parts:
                return int(batch.timestamps_ns[0])
        start, look = stop, look * 16
    return None
