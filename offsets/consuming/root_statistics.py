"""What a directory of logs tells of itself: each log, and each group in it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from appendlog import LogWriter
from offsets.group_checkpoint import GroupCheckpoint


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Where one group is in one log, as its last checkpoint tells it.

    Attributes:
        committed: All below it is done; None: nothing was ever acked.
        lag: Durable end less what is done without a gap.
        settled_above: Done above the first gap.
        dropped_records: Taken away by retention before the group was done with them.
        idle_seconds: Since the group last moved, as far as it was written down.
    """

    committed: int | None
    lag: int
    settled_above: int
    dropped_records: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """One log, with what is still in memory where that is said.

    Attributes:
        records: With the kernel or on the disk.
        body_bytes: Of their payloads.
        disk_bytes: Of the segment files.
        segments: Of the log.
        first_offset: Lowest offset that it may hold.
        end_offset: What the next record gets, those in memory counted.
        recovery_point: All below is on the disk.
        first_timestamp_ns: Of the oldest record; 0 when there is none.
        last_timestamp_ns: Of the newest one ever; 0 when there was none.
        appended_records: Since it was opened.
        appended_bytes: Of their messages.
        batch_bytes: Messages that are in memory only.
        syncs: Since it was opened.
        removed_bytes: By retention, since it was opened.
        damaged_places: Found when it was opened, or by reads in this process.
        cut_bytes: Torn tail of a crash, cut off when it was opened.
        index_entries: In the sparse indexes.
        index_bytes: Of their files.
        groups: By name.
    """

    records: int
    body_bytes: int
    disk_bytes: int
    segments: int
    first_offset: int
    end_offset: int
    recovery_point: int
    first_timestamp_ns: int
    last_timestamp_ns: int
    appended_records: int
    appended_bytes: int
    batch_bytes: int
    syncs: int
    removed_bytes: int
    damaged_places: int
    cut_bytes: int
    index_entries: int
    index_bytes: int
    groups: dict[str, GroupStatistics] = field(default_factory=dict)


def log_statistics(writer: LogWriter, groups: Iterable[GroupCheckpoint]) -> LogStatistics:
    """Return what is known of a log.

    Args:
        writer: Of the log.
        groups: What the checkpoints say of its groups.
    """
    log, done, recovery = writer.log, writer.statistics(), writer.recovery
    sums = log.summaries()
    index = log.index_statistics()
    start, end = log.log_start_offset, log.recovery_point
    now_ns = time.time_ns()
    return LogStatistics(
        records=sum(each.record_count for each in sums),
        body_bytes=sum(each.body_bytes for each in sums),
        disk_bytes=log.size_bytes,
        segments=len(sums),
        first_offset=start,
        end_offset=writer.end_offset,
        recovery_point=end,
        first_timestamp_ns=next((s.first_timestamp_ns for s in sums if s.record_count), 0),
        last_timestamp_ns=log.last_timestamp_ns,
        appended_records=done.appended_records,
        appended_bytes=done.appended_bytes,
        batch_bytes=done.batch_bytes,
        syncs=done.syncs,
        removed_bytes=log.reclaim.retention_bytes,
        damaged_places=recovery.damaged_chunks + len(log.damaged),
        cut_bytes=recovery.cut_bytes,
        index_entries=index.entries,
        index_bytes=index.size_bytes,
        groups={each.name: _group_statistics(each, start, end, now_ns) for each in groups},
    )


def _group_statistics(
    checkpoint: GroupCheckpoint, start: int, end: int, now_ns: int
) -> GroupStatistics:
    group = checkpoint.offsets(end)
    return GroupStatistics(
        committed=group.committed,
        lag=group.lag(end, start),
        settled_above=group.settlement.settled_above_floor,
        dropped_records=group.dropped_total,
        idle_seconds=max(now_ns - checkpoint.updated_at_ns, 0) / 1e9,
    )
