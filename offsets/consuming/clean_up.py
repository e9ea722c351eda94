"""Which segments of a directory's logs go: the log's own retention, over all logs and groups.

A log is read by groups and by whoever comes later, so "settled" is what every group is past; with
no bound set nothing goes, however settled. What the bounds would let go and a group still needs
is held back, and told: by whom, and how much.
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
    """What was removed of one log, and what was not.

    Attributes:
        log: Its name.
        removed_segments: Whole segments.
        removed_bytes: Of their files.
        removed_records: In them.
        held_back_segments: Those that the bounds would let go, kept for groups.
        held_back_bytes: Of their files.
        held_by: The groups that have not read all of these.
        held_bytes: How many bytes of these each of the groups has not read.
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
    """What one round of retention did.

    Attributes:
        logs: By name; those of which nothing went and nothing was held back are not here.
    """

    logs: dict[str, LogCleanUp] = field(default_factory=dict)

    @property
    def removed_segments(self) -> int:
        """Of all logs."""
        return sum(each.removed_segments for each in self.logs.values())

    @property
    def removed_bytes(self) -> int:
        """Of all logs."""
        return sum(each.removed_bytes for each in self.logs.values())

    @property
    def removed_records(self) -> int:
        """Of all logs."""
        return sum(each.removed_records for each in self.logs.values())

    @property
    def held_back_bytes(self) -> int:
        """Of all logs."""
        return sum(each.held_back_bytes for each in self.logs.values())

    @property
    def held_bytes(self) -> dict[str, int]:
        """Of all logs, by group; what several groups hold counts for each of them."""
        held: dict[str, int] = {}
        for log in self.logs.values():
            for group, size in log.held_bytes.items():
                held[group] = held.get(group, 0) + size
        return held


@dataclass(frozen=True, slots=True)
class LogUse:
    """One log, as retention sees it.

    Attributes:
        segments: Oldest first.
        floors: For each of its groups the offset below which it is done.
    """

    segments: Sequence[Segment]
    floors: Mapping[str, int]

    @property
    def floor(self) -> int:
        """What every group is past; the end of what can be removed if there is none."""
        return min([self.last_base, *self.floors.values()])

    @property
    def last_base(self) -> int:
        """Where the last segment begins, which always stays."""
        return self.segments[-1].base_offset if self.segments else 0


def removal_ends(
    logs: Mapping[str, LogUse],
    policy: RetentionPolicy,
    total_bytes: int,
    now_ns: int,
    *,
    ignores_groups: bool,
) -> dict[str, int]:
    """Return, for each log, the offset below which its segments are to go; 0 for none.

    Args:
        logs: By name.
        policy: Of each of them.
        total_bytes: What all of them may have together; 0 = no such bound.
        now_ns: Nanoseconds since 1970 UTC.
        ignores_groups: Whether the bounds count though a group has not read what goes.
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
    """Return what is kept of a log for its groups.

    Args:
        name: Of the log.
        log: Before anything is removed.
        end: Below it segments go.
        wanted_end: Below it they would go without groups.
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
    """Return what is left of the total for segments that can go, beside those that cannot."""
    fixed = 0
    for name, log in logs.items():
        staying = sum(each.size_bytes for each in log.segments if each.end_offset > ends[name])
        staying += log.segments[-1].size_bytes if _is_bare(log, ends[name]) else 0
        fixed += staying - sum(each.size_bytes for each in kept[name][0])
    return max(total_bytes - fixed, 0)


def _is_bare(log: LogUse, end: int) -> bool:
    """Tell whether nothing but an empty last segment is left."""
    return bool(log.segments) and log.segments[-1].end_offset <= end
