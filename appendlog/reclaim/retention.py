"""Which sealed segments go: retention as decisions over what segments say of themselves.

Settled segments are kept as long as every bound that is set is kept: a segment goes when it is
too old, or when there are more bytes of them than wanted, whichever is first. The oldest go first,
and with no bound set they go at once. Nothing here does I/O.
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
    """What one log keeps.

    Attributes:
        retain_for_ns: Settled segments go when their last record is older; 0 = no such bound.
        retain_bytes: The oldest settled segments go while there are more bytes of them than
            this; 0 = no such bound.
        segments_min: The newest segments, so many, the one that is written included, stay
            whatever the bounds say; >= 1.
        protects_unconsumed: Whether a segment stays, whatever the bounds say, as long as one of
            its messages is not settled.
        force_after_ns: A segment goes when its last record is older, even though messages in
            it are not settled, and even of the newest ones; 0 = never.
    """

    retain_for_ns: int = 0
    retain_bytes: int = 0
    segments_min: int = 1
    protects_unconsumed: bool = True
    force_after_ns: int = 0

    @property
    def has_bounds(self) -> bool:
        """Whether settled segments are kept until a bound is passed, and do not go at once."""
        return bool(self.retain_for_ns or self.retain_bytes)

    @property
    def keeps_settled(self) -> bool:
        """Whether anything that is settled is kept."""
        return self.has_bounds or self.segments_min > 1

    @property
    def may_force(self) -> bool:
        """Whether segments may go that hold messages which are not settled."""
        return bool(self.force_after_ns) or (not self.protects_unconsumed and self.has_bounds)

    def keep_since_ns(self, now_ns: int) -> int | None:
        """Return from when on what is settled is kept; None when nothing is kept."""
        if self.retain_for_ns:
            return now_ns - self.retain_for_ns
        return 0 if self.keeps_settled else None


def removal_end(
    segments: Sequence[Segment], floor: int, policy: RetentionPolicy, now_ns: int
) -> int:
    """Return the offset below which all segments are to go; 0 when none is.

    Args:
        segments: Of one log, oldest first.
        floor: Offsets below it are settled.
        policy: Of the log.
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
    """Return the offset below which segments are to go with what is not settled; 0 when none is.

    Args:
        segments: Of one log, oldest first.
        policy: Of the log.
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
    """Return, for each log that has to give some, the offset below which its segments go.

    The segment whose last record is oldest goes first, whichever log it is of.

    Args:
        kept: By log: its settled segments that are kept, oldest first, and how many of the newest
            of them stay whatever happens.
        total_bytes: What all of them may have together.
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
    """Return the settled segments behind `end`, and how many of the newest of them stay.

    Args:
        segments: Of one log, oldest first.
        floor: Offsets below it are settled.
        end: Of `removal_end`: what is below it goes anyway.
        policy: Of the log.
    """
    settled = _settled(segments, floor)
    removable = max(len(segments) - policy.segments_min, 0)
    staying = max(len(settled) - removable, 0)
    return [segment for segment in settled if segment.end_offset > end], staying


def _settled(segments: Sequence[Segment], floor: int) -> list[Segment]:
    """Return the sealed segments at the front that lie below the floor, never the last one."""
    settled: list[Segment] = []
    for segment in segments[:-1]:
        if not segment.is_sealed or segment.end_offset > floor:
            break
        settled.append(segment)
    return settled


def _oldest_ns(age_ns: int, now_ns: int) -> int:
    """Return what was written before this time is too old; nothing is where there is no bound."""
    return now_ns - age_ns if age_ns else _NEVER_NS
