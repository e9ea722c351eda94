"""Checkpoint of one consumer group of one queue, and its format on the disk.

docs/checkpoint-format.md, section 4, describes the format. The slow part, above all acked ranges,
is in `encode`, which the writing thread calls: fifty thousand groups take a fraction of a second
there. A snapshot shares the bitmaps of the settlement, like a queue's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from offsets.group_offsets import GroupOffsets
from offsets.range_coding import (
    REDELIVERY_BYTES,
    decode_ranges,
    decode_redeliveries,
    encode_redeliveries,
    encode_snapshot,
    ranges_bytes,
)
from offsets.settlement import Settlement

if TYPE_CHECKING:
    from offsets.settlement_snapshot import SettlementSnapshot

_FIXED: Final = struct.Struct("<16sBBHIIIQQQQQQqQ")
assert _FIXED.size == 96
_FIXED_BYTES_V3: Final = 88
"""Size of the fixed part in version 3, which lacks the recovery point at the end."""

_KEY: Final = struct.Struct("<16sB")
_STARTED: Final = 1
_COMMITTED: Final = 2


GroupKey = tuple[bytes, bytes]
"""Incarnation, and the name in UTF-8."""


class GroupState(Protocol):
    """State of one group, for a round of checkpoints."""

    @property
    def incarnation(self) -> UUID:
        """Incarnation of the queue."""

    @property
    def name(self) -> str:
        """Name of the group."""

    def encode(self) -> bytes:
        """Return the group's entry. The writing thread calls it."""


@dataclass(frozen=True, slots=True)
class GroupCheckpoint:
    """Checkpoint of one group; may be out of date, but never settles too much.

    Attributes:
        incarnation: Incarnation of the queue.
        name: Name of the group.
        start: Floor of the group: everything below is settled or dropped; None if it has no
            position.
        commit_floor: Lowest offset that a commit may name; 0 without a position.
        is_committed: Whether something was acked, committed or sought; then `start` is the commit.
        acked_ranges: Settled ranges [start, end) above the floor: ascending, not overlapping.
        delivered_watermark: Offset, exclusive, below which all deliveries to the group were, since
            it began or was moved; >= 0.
        redeliveries: Runs (start, end, count) of offsets that were returned to the group, with the
            number of returns; 0 means delivered an unknown number of times. Some may be settled.
        dropped_total: Number of offsets that retention removed before the group settled them.
        dropped_since_last_poll: Number of these that were not reported to it yet.
        redelivered: Number of redelivered messages.
        updated_at_ns: Time when it last started, acked, committed or moved; 0 if it never did.
        recovery_point: Offset, exclusive, below which the log was on the disk; 0 if the log was
            empty or this is unknown.
    """

    incarnation: UUID
    name: str
    start: int | None = None
    commit_floor: int = 0
    is_committed: bool = False
    acked_ranges: list[tuple[int, int]] = field(default_factory=list)
    delivered_watermark: int = 0
    redeliveries: list[tuple[int, int, int]] = field(default_factory=list)
    dropped_total: int = 0
    dropped_since_last_poll: int = 0
    redelivered: int = 0
    updated_at_ns: int = 0
    recovery_point: int = 0

    @property
    def committed(self) -> int | None:
        """Offset below which everything is acked; None if there was no commit."""
        return self.start if self.is_committed else None

    @property
    def settled_end(self) -> int:
        """End of the highest settled offset, exclusive; not above the end of its log."""
        return max([self.start or 0, *(end for _, end in self.acked_ranges)])

    @property
    def known_end(self) -> int:
        """Offset below which the log was on the disk, exclusive: settled offsets were too (I4)."""
        return max(self.recovery_point, self.settled_end)

    def offsets(self, log_end: int) -> GroupOffsets:
        """Return the state of the group in a log that ends at `log_end`.

        Settled offsets at or above the end are discarded: a log that lost its end assigns those
        offsets to new messages, which the group must get.

        Args:
            log_end: Log end offset, exclusive.
        """
        group = GroupOffsets(self.name)
        group.dropped_total = self.dropped_total
        group.dropped_since_last_poll = self.dropped_since_last_poll
        group.redelivered = self.redelivered
        if self.start is not None:
            floor = min(self.start, log_end)
            ranges = [(low, min(high, log_end)) for low, high in self.acked_ranges if low < log_end]
            group.restore(Settlement(floor, ranges), self.commit_floor, self.is_committed)
            group.changed = self.settled_end > log_end
        group.updated_at_ns = self.updated_at_ns
        return group

    def encode(self) -> bytes:
        """Return the group's entry. O(acked ranges + redelivery counts)."""
        floor = self.start or 0
        ranges = self.acked_ranges
        settled = Settlement(floor, ranges).snapshot(ranges[-1][1] if ranges else floor)
        return _entry(self, settled, self.start is not None)


@dataclass(slots=True)
class GroupSnapshot:
    """State of one group at one moment, as cheap to take as possible.

    Made by `GroupSnapshot.of`; attributes as in `GroupCheckpoint`. `settled` holds the floor and
    the acked ranges, clipped to the log's `recovery_point`.
    """

    incarnation: UUID
    name: str
    settled: SettlementSnapshot
    is_started: bool
    is_committed: bool
    commit_floor: int
    delivered_watermark: int
    redeliveries: list[tuple[int, int, int]]
    dropped_total: int
    dropped_since_last_poll: int
    redelivered: int
    updated_at_ns: int
    recovery_point: int

    @classmethod
    def of(
        cls,
        group: GroupOffsets,
        incarnation: UUID,
        end: int,
        delivered_watermark: int = 0,
        redeliveries: list[tuple[int, int, int]] | None = None,
    ) -> GroupSnapshot:
        """Take a group's state, in the thread that owns it.

        Args:
            group: Group; its `changed` is not reset.
            incarnation: Incarnation of its queue.
            end: Recovery point of the log: settled offsets at or above it are left out.
            delivered_watermark: Offset, exclusive, below which all deliveries to the group were.
            redeliveries: Runs (start, end, count), which must not change any more.
        """
        return cls(
            incarnation,
            group.name,
            group.settlement.snapshot(end),
            group.start is not None,
            group.committed is not None,
            min(group.commit_floor or 0, end),
            delivered_watermark,
            redeliveries or [],
            group.dropped_total,
            group.dropped_since_last_poll,
            group.redelivered,
            group.updated_at_ns,
            end,
        )

    def encode(self) -> bytes:
        """Return the group's entry. O(pages + acked ranges + redelivery counts)."""
        return _entry(self, self.settled, self.is_started)


def group_key(entry: bytes) -> GroupKey:
    """Return the incarnation and the name of an encoded group, as bytes."""
    return entry[:16], entry[_FIXED.size : _FIXED.size + entry[17]]


def encode_group_key(incarnation: UUID, name: str) -> bytes:
    """Return the key of a removed group, in the format of a round."""
    octets = name.encode()
    return _KEY.pack(incarnation.bytes, len(octets)) + octets


def decode_group_key(data: bytes, position: int) -> tuple[GroupKey, int]:
    """Return the key at `position` and the position after it, which may be past the end.

    Raises:
        struct.error: Fewer bytes are left than the fixed part has.
    """
    incarnation, size = _KEY.unpack_from(data, position)
    position += _KEY.size
    return (incarnation, data[position : position + size]), position + size


def group_checkpoint_bytes(data: bytes, position: int) -> int:
    """Return the size of the entry at `position`; the caller compares it with the bytes left.

    Raises:
        struct.error: Fewer bytes are left than the fixed part has.
    """
    _, _, name_bytes, _, run_count, bitmap_bytes, redelivery_count = _FIXED.unpack_from(
        data, position
    )[:7]
    variable = ranges_bytes(run_count, bitmap_bytes) + redelivery_count * REDELIVERY_BYTES
    return _FIXED.size + int(name_bytes + variable)


def group_checkpoint_bytes_v3(data: bytes, position: int) -> int:
    """Return the size of an entry of version 3; see `group_checkpoint_bytes`.

    Raises:
        struct.error: As for `group_checkpoint_bytes`.
    """
    fixed = data[position : position + _FIXED_BYTES_V3]
    size = group_checkpoint_bytes(_with_recovery_point(fixed), 0)
    return size - (_FIXED.size - _FIXED_BYTES_V3)


def group_checkpoint_from_v3(entry: bytes) -> bytes:
    """Convert an entry of version 3 to the present version, with an unknown recovery point."""
    return _with_recovery_point(entry)


def decode_group_checkpoint(entry: bytes) -> GroupCheckpoint:
    """Decode a group's entry, which has the size of `group_checkpoint_bytes`."""
    (incarnation, flags, name_bytes, _, run_count, bitmap_bytes, redelivery_count, *numbers) = (
        _FIXED.unpack_from(entry)
    )
    floor, commit_floor, watermark, dropped, dropped_since, redelivered, *ends = numbers
    updated_at_ns, recovery_point = ends
    position = _FIXED.size + name_bytes
    ranges = decode_ranges(floor, entry, position, run_count, bitmap_bytes)
    position += ranges_bytes(run_count, bitmap_bytes)
    return GroupCheckpoint(
        UUID(bytes=incarnation),
        entry[_FIXED.size : _FIXED.size + name_bytes].decode(),
        floor if flags & _STARTED else None,
        commit_floor,
        bool(flags & _COMMITTED),
        ranges,
        watermark,
        decode_redeliveries(entry, position, redelivery_count),
        dropped,
        dropped_since,
        redelivered,
        updated_at_ns,
        recovery_point,
    )


def _with_recovery_point(entry: bytes) -> bytes:
    unknown = bytes(_FIXED.size - _FIXED_BYTES_V3)
    return entry[:_FIXED_BYTES_V3] + unknown + entry[_FIXED_BYTES_V3:]


def _entry(
    state: GroupCheckpoint | GroupSnapshot, settled: SettlementSnapshot, is_started: bool
) -> bytes:
    name = state.name.encode()
    run_count, acked = encode_snapshot(settled)
    counts = encode_redeliveries(state.redeliveries) if state.redeliveries else b""
    fixed = _FIXED.pack(
        state.incarnation.bytes,
        (_STARTED if is_started else 0) | (_COMMITTED if state.is_committed else 0),
        len(name),
        0,
        run_count,
        0 if run_count else len(acked),
        len(counts) // REDELIVERY_BYTES,
        settled.ack_floor,
        state.commit_floor,
        state.delivered_watermark,
        state.dropped_total,
        state.dropped_since_last_poll,
        state.redelivered,
        state.updated_at_ns,
        state.recovery_point,
    )
    return b"".join((fixed, name, acked, counts))
