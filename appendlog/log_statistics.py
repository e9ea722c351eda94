"""What a log holds, in numbers: the same ones for whoever shows them.

The running server takes them from the open log, programs without a server from their writer, and
whoever only has the files from the ends of the segments. docs/statistics.md has each number.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from appendlog.files.descriptors import Descriptors
from appendlog.recovery.own_segments import own_segments
from appendlog.segments.durable_end import read_durable_end
from appendlog.segments.sealed import read_footer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from appendlog.files.filesystem import FileSystem
    from appendlog.identity import LogIdentity
    from appendlog.layout.summary import SegmentSummary
    from appendlog.log import Log
    from appendlog.segments.segment import SegmentName


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """What a log holds now, whoever wrote it and whenever.

    Attributes:
        records: In its segments, those too that are settled and not removed yet; None: not known
            without a scan, which only files after a crash of the machine can make necessary.
        disk_bytes: Of its segment files, headers and footers included.
        segments: How many segment files.
        first_offset: Of the first record; None: there is none, or it is not known.
        last_offset: Of the last record that may be shown (I9); None: as above.
        first_timestamp_ns: Append time of the first record, ns since 1970 UTC; None: as above.
        last_timestamp_ns: Of the last one.
    """

    records: int | None
    disk_bytes: int
    segments: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ns: int | None
    last_timestamp_ns: int | None

    def as_json(self) -> dict[str, int | None]:
        """Return the numbers by name."""
        return asdict(self)


def log_statistics(log: Log, visible_end: int | None = None) -> LogStatistics:
    """Return what an open log holds. O(segments); looks at no file.

    Args:
        log: The log.
        visible_end: Offsets from here on are not shown; None: all that is written is.
    """
    return _of_summaries(log.summaries(), log.size_bytes, visible_end)


def stored_statistics(
    directory: Path, identity: LogIdentity, filesystem: FileSystem
) -> LogStatistics:
    """Return what the files of a log tell: the end of each segment is read, none is scanned.

    Args:
        directory: Of the log.
        identity: Whose it is.
        filesystem: Reads the files.

    Raises:
        OSError: A file cannot be read.
    """
    names = own_segments(directory, identity, filesystem).names
    durable = read_durable_end(filesystem, directory, identity.incarnation)
    summaries: list[SegmentSummary | None] = []
    size_bytes = 0
    for name in names:
        size, summary = _stored_segment(directory, name, identity, filesystem)
        size_bytes += size
        if summary is None and durable is not None:
            # Of the last segment, as long as it has no footer.
            is_last = name.base_offset == durable.segment_base_offset
            summary = durable.summary if is_last else None
        summaries.append(summary)
    known = [summary for summary in summaries if summary is not None]
    if len(known) < len(names):
        return LogStatistics(None, size_bytes, len(names), None, None, None, None)
    return _of_summaries(known, size_bytes, durable.recovery_point if durable else None)


def _stored_segment(
    directory: Path, name: SegmentName, identity: LogIdentity, filesystem: FileSystem
) -> tuple[int, SegmentSummary | None]:
    """Return the size of a segment and the sums in its footer, if it has one."""
    descriptors = Descriptors(1)
    try:
        with descriptors.borrow(filesystem, directory / name.file_name, os.O_RDONLY) as descriptor:
            size = filesystem.size(descriptor)
            footer = read_footer(filesystem, descriptor, identity.salt, name.base_offset)
    finally:
        descriptors.close()
    return size, None if footer is None else footer[0]


def _of_summaries(
    summaries: Sequence[SegmentSummary], size_bytes: int, visible_end: int | None
) -> LogStatistics:
    filled = [summary for summary in summaries if summary.record_count]
    records = sum(summary.record_count for summary in filled)
    if not filled:
        return LogStatistics(records, size_bytes, len(summaries), None, None, None, None)
    first, last = filled[0], filled[-1]
    end = last.end_offset if visible_end is None else min(last.end_offset, visible_end)
    if end <= first.first_offset:
        return LogStatistics(records, size_bytes, len(summaries), None, None, None, None)
    return LogStatistics(
        records,
        size_bytes,
        len(summaries),
        first.first_offset,
        end - 1,
        first.first_timestamp_ns,
        last.last_timestamp_ns,
    )
