"""Retention: decides which sealed segments to remove, from their attributes. No I/O.

Settled segments stay until one of the bounds is exceeded: the maximum age, or the maximum number of
bytes. The oldest are removed first. Without any bound they are removed at once.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final, TypeVar

from appendlog.reclaim.ages import written_by
from appendlog.segments.segment import Segment

_NEVER_NS: Final = -(1 << 63)

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Retention bounds of one log.

    Attributes:
        retain_for_ns: Maximum age of the last record of a settled segment; 0 = no bound.
        retain_bytes: Maximum size of all settled segments; the oldest ones are removed first.
            0 = no bound.
        segments_min: Number of newest segments that always stay, including the active one; >= 1.
        protects_unconsumed: Whether a segment stays, whatever the bounds say, while one of its
            messages is not settled.
        force_after_ns: Age of its last record at which a segment is removed even if it is one of
            the newest or has messages that are not settled; 0 = never.
    """

    retain_for_ns: int = 0
    retain_bytes: int = 0
    segments_min: int = 1
    protects_unconsumed: bool = True
    force_after_ns: int = 0

    @property
    def has_bounds(self) -> bool:
        """Whether settled segments stay until a bound is exceeded, not removed at once."""
        return bool(self.retain_for_ns or self.retain_bytes)

    @property
    def keeps_settled(self) -> bool:
        """Whether any settled messages are kept."""
        return self.has_bounds or self.segments_min > 1

    @property
    def may_force(self) -> bool:
        """Whether segments with unsettled messages may be removed."""
        return bool(self.force_after_ns) or (not self.protects_unconsumed and self.has_bounds)

    def keep_since_ns(self, now_ns: int) -> int | None:
        """Return the time from which on settled records are kept; None if none are kept."""
        if self.retain_for_ns:
            return now_ns - self.retain_for_ns
        return 0 if self.keeps_settled else None


def removal_end(
    segments: Sequence[Segment], floor: int, policy: RetentionPolicy, now_ns: int
) -> int:
    """Return the offset below which all segments are to be removed; 0 if there are none.

    Args:
        segments: Segments of one log, oldest first.
        floor: Offset below which everything is settled.
        policy: Policy of the log.
        now_ns: Nanoseconds since 1970 UTC.
    """
    settled = _settled(segments, floor)
    removable = settled[: max(len(segments) - policy.segments_min, 0)]
    if not policy.has_bounds:
        return removable[-1].end_offset if removable else 0
    kept_bytes = sum(segment.size_bytes for segment in settled)
    oldest_ns = _oldest_ns(policy.retain_for_ns, now_ns)
    end = 0
    for segment, written_ns in zip(removable, written_by(segments, now_ns), strict=False):
        if written_ns >= oldest_ns and not (
            policy.retain_bytes and kept_bytes > policy.retain_bytes
        ):
            break
        kept_bytes -= segment.size_bytes
        end = segment.end_offset
    return end


def forced_end(segments: Sequence[Segment], policy: RetentionPolicy, now_ns: int) -> int:
    """Return the offset below which segments are removed even if unsettled; 0 if there are none.

    Args:
        segments: Segments of one log, oldest first.
        policy: Policy of the log.
        now_ns: Nanoseconds since 1970 UTC.
    """
    oldest_ns = _oldest_ns(policy.force_after_ns, now_ns)
    end = 0
    for segment, written_ns in zip(segments[:-1], written_by(segments, now_ns), strict=False):
        if not segment.is_sealed or written_ns >= oldest_ns:
            break
        end = segment.end_offset
    if not policy.protects_unconsumed and policy.has_bounds and segments:
        end = max(end, removal_end(segments, segments[-1].base_offset, policy, now_ns))
    return end


def ends_within_total(
    kept: Mapping[KeyT, tuple[Sequence[Segment], int]], total_bytes: int, now_ns: int
) -> dict[KeyT, int]:
    """Return, for each log that has to free space, the offset below which segments are removed.

    The segment with the oldest last record is removed first, whichever log it belongs to.

    Args:
        kept: For each log, its kept settled segments, oldest first, and the number of the newest
            ones that always stay.
        total_bytes: Limit for the size of all logs together.
        now_ns: Nanoseconds since 1970 UTC.
    """
    kept_bytes = sum(each.size_bytes for segments, _ in kept.values() for each in segments)
    written_ns = {key: written_by(segments, now_ns) for key, (segments, _) in kept.items()}
    ends: dict[KeyT, int] = {}
    queue = [
        (written_ns[key][0], number, 0, key)
        for number, (key, (segments, staying)) in enumerate(kept.items())
        if len(segments) > staying
    ]
    heapify(queue)
    while queue and kept_bytes > total_bytes:
        _, number, at, key = queue[0]
        segments, staying = kept[key]
        kept_bytes -= segments[at].size_bytes
        ends[key] = segments[at].end_offset
        at += 1
        if at < len(segments) - staying:
            heapreplace(queue, (written_ns[key][at], number, at, key))
        else:
            heappop(queue)
    return ends


def kept_settled(
    segments: Sequence[Segment], floor: int, end: int, policy: RetentionPolicy
) -> tuple[list[Segment], int]:
    """Return the settled segments after `end`, and how many of the newest ones stay.

    Args:
        segments: Segments of one log, oldest first.
        floor: Offset below which everything is settled.
        end: Result of `removal_end`: everything below it is removed in any case.
        policy: Policy of the log.
    """
    settled = _settled(segments, floor)
    removable = max(len(segments) - policy.segments_min, 0)
    staying = max(len(settled) - removable, 0)
    return [segment for segment in settled if segment.end_offset > end], staying


def _settled(segments: Sequence[Segment], floor: int) -> list[Segment]:
    """Return the oldest sealed segments that are below the floor, never the last one."""
    settled: list[Segment] = []
    for segment in segments[:-1]:
        if not segment.is_sealed or segment.end_offset > floor:
            break
        settled.append(segment)
    return settled


def _oldest_ns(age_ns: int, now_ns: int) -> int:
    """Return the time before which records are too old; without a bound, no record is."""
    return now_ns - age_ns if age_ns else _NEVER_NS
