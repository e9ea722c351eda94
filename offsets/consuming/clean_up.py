"""Retention over all logs and groups of a data directory: which segments to remove.

Groups read a log, and later groups may, so "settled" means that every group has passed it. Without
a bound nothing is removed, even if settled. Segments that exceed a bound but that a group still
needs are kept, and reported: their size, and the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from appendlog import RetentionPolicy
from appendlog.reclaim.retention import (
    ends_within_total,
    forced_end,
    kept_settled,
    removal_end,
)
from appendlog.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class LogCleanUp:
    """Removed and kept data of one log.

    Attributes:
        log: Name of the log.
        removed_segments: Number of segments removed.
        removed_bytes: Size of their files.
        removed_records: Number of records in them.
        held_back_segments: Number of segments that exceed a bound, but are kept for groups.
        held_back_bytes: Size of their files.
        held_by: Groups that have not read all of these.
        held_bytes: Number of these bytes that each group has not read.
    """

    log: str
    removed_segments: int = 0
    removed_bytes: int = 0
    removed_records: int = 0
    held_back_segments: int = 0
    held_back_bytes: int = 0
    held_by: tuple[str, ...] = ()
    held_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Result of one round of retention.

    Attributes:
        logs: Results by log name; without logs of which nothing was removed or held back.
    """

    logs: dict[str, LogCleanUp] = field(default_factory=dict)

    @property
    def removed_segments(self) -> int:
        """Number of segments removed from all logs."""
        return sum(each.removed_segments for each in self.logs.values())

    @property
    def removed_bytes(self) -> int:
        """Size of the files removed from all logs, in bytes."""
        return sum(each.removed_bytes for each in self.logs.values())

    @property
    def removed_records(self) -> int:
        """Number of records removed from all logs."""
        return sum(each.removed_records for each in self.logs.values())

    @property
    def held_back_bytes(self) -> int:
        """Size of the segments kept for groups in all logs, in bytes."""
        return sum(each.held_back_bytes for each in self.logs.values())

    @property
    def held_bytes(self) -> dict[str, int]:
        """Unread bytes by group, of all logs; several groups may count the same bytes."""
        held: dict[str, int] = {}
        for log in self.logs.values():
            for group, size in log.held_bytes.items():
                held[group] = held.get(group, 0) + size
        return held


@dataclass(frozen=True, slots=True)
class LogUse:
    """Segments and groups of one log.

    Attributes:
        segments: Segments, oldest first.
        floors: For each group, the offset below which it has settled everything.
    """

    segments: Sequence[Segment]
    floors: Mapping[str, int]

    @property
    def floor(self) -> int:
        """Offset that every group has passed; without groups, the base of the last segment."""
        return min([self.last_base, *self.floors.values()])

    @property
    def last_base(self) -> int:
        """Base offset of the last segment, which always stays."""
        return self.segments[-1].base_offset if self.segments else 0


def removal_ends(
    logs: Mapping[str, LogUse],
    policy: RetentionPolicy,
    total_bytes: int,
    now_ns: int,
    *,
    ignores_groups: bool,
) -> dict[str, int]:
    """Return, for each log, the offset below which its segments are removed; 0 for none.

    Args:
        logs: Logs by name.
        policy: Policy of each log.
        total_bytes: Limit for the size of all logs together; 0 = no such bound.
        now_ns: Nanoseconds since 1970 UTC.
        ignores_groups: Whether the bounds apply even to segments that a group has not read.
    """
    ends: dict[str, int] = {}
    kept: dict[str, tuple[Sequence[Segment], int]] = {}
    for name, log in logs.items():
        is_free = ignores_groups or not policy.protects_unconsumed
        floor = log.last_base if is_free else log.floor
        ends[name] = removal_end(log.segments, floor, policy, now_ns) if policy.has_bounds else 0
        if policy.may_force:
            ends[name] = max(ends[name], forced_end(log.segments, policy, now_ns))
        kept[name] = kept_settled(log.segments, floor, ends[name], policy)
    if total_bytes:
        left = _left(logs, ends, kept, total_bytes)
        for name, end in ends_within_total(kept, left, now_ns).items():
            ends[name] = max(ends[name], end)
    return ends


def held_back(name: str, log: LogUse, end: int, wanted_end: int) -> LogCleanUp:
    """Return the segments of a log that are kept for its groups.

    Args:
        name: Name of the log.
        log: State of the log before anything is removed.
        end: Offset below which segments are removed.
        wanted_end: Offset below which they would be removed without groups.
    """
    kept = [each for each in log.segments[:-1] if end < each.end_offset <= wanted_end]
    if not kept:
        return LogCleanUp(name)
    held = {
        group: sum(each.size_bytes for each in kept if floor < each.end_offset)
        for group, floor in sorted(log.floors.items())
        if floor < kept[-1].end_offset
    }
    return LogCleanUp(
        name,
        held_back_segments=len(kept),
        held_back_bytes=sum(each.size_bytes for each in kept),
        held_by=tuple(held),
        held_bytes=held,
    )


def _left(
    logs: Mapping[str, LogUse],
    ends: Mapping[str, int],
    kept: Mapping[str, tuple[Sequence[Segment], int]],
    total_bytes: int,
) -> int:
    """Return the rest of the total for segments that can be removed, after those that cannot."""
    fixed = 0
    for name, log in logs.items():
        staying = sum(each.size_bytes for each in log.segments if each.end_offset > ends[name])
        staying += log.segments[-1].size_bytes if _is_bare(log, ends[name]) else 0
        fixed += staying - sum(each.size_bytes for each in kept[name][0])
    return max(total_bytes - fixed, 0)


def _is_bare(log: LogUse, end: int) -> bool:
    """Return whether only an empty last segment is left."""
    return bool(log.segments) and log.segments[-1].end_offset <= end
