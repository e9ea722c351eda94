"""Counters and bounds of a log, the same ones for every caller.

The running server takes them from the open log. Programs without a server take them from their
writer. Commands that have only the files read the ends of the segments. docs/statistics.md
explains each number.
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
    """Current contents of a log, whichever process wrote it.

    Attributes:
        records: Records in its segments, including settled ones that are not removed yet. None if
            only a scan could count them, which happens only after a crash of the machine.
        disk_bytes: Size of its segment files, with headers and footers.
        segments: Number of segment files.
        first_offset: Offset of the first record; None if there is none, or it is not known.
        last_offset: Offset of the last record that consumers may see (I9); None as above.
        first_timestamp_ns: Append time of the first record, ns since 1970 UTC; None as above.
        last_timestamp_ns: Append time of the last record, likewise.
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
    """Return the statistics of an open log. O(segments); reads no file.

    Args:
        log: Log that is open.
        visible_end: Offset from which on records are hidden; None shows all that are written.
    """
    return _of_summaries(log.summaries(), log.size_bytes, visible_end)


def stored_statistics(
    directory: Path, identity: LogIdentity, filesystem: FileSystem
) -> LogStatistics:
    """Return the statistics of a log's files; reads the end of each segment, scans none.

    Args:
        directory: Directory of the log.
        identity: Identity of the log.
        filesystem: File operations.

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
            # The last segment has no footer yet.
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
    """Return the size of a segment and the sums in its footer, None without a valid footer."""
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
