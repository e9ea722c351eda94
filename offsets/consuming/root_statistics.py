"""What a directory of logs tells of itself: each log, and each group in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from appendlog import LogWriter
from offsets.group_checkpoint import GroupCheckpoint


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Where one group is in one log, as its last checkpoint tells it.

    Attributes:
        committed: All below it is done; None: nothing was ever acked.
        lag: Durable end less what is done without a gap.
        acked_ahead: Done above the first gap.
        dropped_total: Taken away by retention before the group was done with them, ever.
        updated_at_ns: When it last moved, as far as it was written down; ns since 1970 UTC; None:
            never.
    """

    committed: int | None
    lag: int
    acked_ahead: int
    dropped_total: int
    updated_at_ns: int | None


@dataclass(frozen=True, slots=True)
class RootLogStatistics:
    """One log. What `amqp-server stats` shows of it, too, has the same name and meaning there.

    Attributes:
        records: In its segments; those that are in memory only are not counted.
        body_bytes: Of their payloads.
        disk_bytes: Of the segment files.
        segments: How many segment files.
        first_offset: Of the first record; None: there is none.
        last_offset: Of the last one that readers see; None: there is none.
        first_timestamp_ns: Append time of the first record, ns since 1970 UTC; None: as above.
        last_timestamp_ns: Of the last one.
        log_start_offset: Where the log begins.
        log_end_offset: What the next record gets, those in memory counted.
        recovery_point: All below is on the disk.
        appended: Records since it was opened.
        appended_bytes: Of their messages.
        batch_bytes: Messages that are in memory only.
        syncs: Since it was opened.
        removed_bytes: By retention, since it was opened.
        damaged_chunks: Places that did not hold together, found when it was opened, or by reads
            in this process.
        cut_bytes: Torn tail of a crash, cut off when it was opened.
        index_entries: In the sparse indexes.
        index_bytes: Of their files.
        groups: By name.
    """

    records: int | None
    body_bytes: int
    disk_bytes: int
    segments: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ns: int | None
    last_timestamp_ns: int | None
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    appended: int
    appended_bytes: int
    batch_bytes: int
    syncs: int
    removed_bytes: int
    damaged_chunks: int
    cut_bytes: int
    index_entries: int
    index_bytes: int
    groups: dict[str, GroupStatistics] = field(default_factory=dict)


def root_log_statistics(writer: LogWriter, groups: Iterable[GroupCheckpoint]) -> RootLogStatistics:
    """Return what is known of a log.

    Args:
        writer: Of the log.
        groups: What the checkpoints say of its groups.
    """
    log, done, recovery = writer.log, writer.statistics(), writer.recovery
    index = log.index_statistics()
    start, end = log.log_start_offset, log.recovery_point
    return RootLogStatistics(
        **asdict(writer.log_statistics()),
        body_bytes=sum(each.body_bytes for each in log.summaries()),
        log_start_offset=start,
        log_end_offset=writer.end_offset,
        recovery_point=end,
        appended=done.appended,
        appended_bytes=done.appended_bytes,
        batch_bytes=done.batch_bytes,
        syncs=done.syncs,
        removed_bytes=log.reclaim.retention_bytes,
        damaged_chunks=log.damaged_chunks,
        cut_bytes=recovery.cut_bytes,
        index_entries=index.entries,
        index_bytes=index.size_bytes,
        groups={each.name: _group_statistics(each, start, end) for each in groups},
    )


def _group_statistics(checkpoint: GroupCheckpoint, start: int, end: int) -> GroupStatistics:
    group = checkpoint.offsets(end)
    return GroupStatistics(
        committed=group.committed,
        lag=group.lag(end, start),
        acked_ahead=group.settlement.settled_above_floor,
        dropped_total=group.dropped_total,
        updated_at_ns=checkpoint.updated_at_ns or None,
    )
