"""Statistics of a data directory: each log, and each group in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from appendlog import LogWriter
from offsets.group_checkpoint import GroupCheckpoint


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """State of one group in one log, from its last checkpoint.

    Attributes:
        committed: Offset below which everything is acked; None if nothing was ever acked.
        lag: Durable end minus `committed`, in offsets.
        acked_ahead: Number of offsets acked above the first gap.
        dropped_total: Number of records that retention removed before the group settled them, ever.
        updated_at_ns: Time of its last recorded change, ns since 1970 UTC; None if there was none.
    """

    committed: int | None
    lag: int
    acked_ahead: int
    dropped_total: int
    updated_at_ns: int | None


@dataclass(frozen=True, slots=True)
class RootLogStatistics:
    """Statistics of one log; `amqp-server stats` uses the same names with the same meaning.

    Attributes:
        records: Records in its segments, without those that are only in memory.
        body_bytes: Size of their payloads.
        disk_bytes: Size of the segment files.
        segments: Number of segment files.
        first_offset: Offset of the first record; None if there is none.
        last_offset: Offset of the last record that readers see; None if there is none.
        first_timestamp_ns: Append time of the first record, ns since 1970 UTC; None as above.
        last_timestamp_ns: Append time of the last record, likewise.
        log_start_offset: Start of the log.
        log_end_offset: Offset of the next record, including records in memory.
        recovery_point: Offset below which everything is on the disk.
        appended: Number of records appended since the log was opened.
        appended_bytes: Size of their messages.
        batch_bytes: Size of the messages that are only in memory.
        syncs: Number of syncs since the log was opened.
        removed_bytes: Bytes that retention has removed since the log was opened.
        damaged_chunks: Number of damaged places found at the opening, or by reads in this process.
        cut_bytes: Size of the torn tail that a crash left and the opening cut off.
        index_entries: Number of entries in the sparse indexes.
        index_bytes: Size of the index files.
        groups: Statistics of the groups, by name.
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
    """Return the statistics of a log.

    Args:
        writer: Writer of the log.
        groups: Checkpoints of its groups.
    """
    log = writer.log
    done = writer.statistics()
    recovery = writer.recovery
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
