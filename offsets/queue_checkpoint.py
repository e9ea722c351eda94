"""What a checkpoint remembers of one queue, and its form on the disk.

The form is drawn in docs/checkpoint-format.md, section 3. Packing is in bulk: ten thousand queues
are encoded in some milliseconds.
"""

import struct
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from offsets.range_coding import (
    REDELIVERY_BYTES,
    decode_ranges,
    decode_redeliveries,
    encode_ranges,
    encode_redeliveries,
    encode_snapshot,
    ranges_bytes,
)
from offsets.settlement_snapshot import SettlementSnapshot

_FIXED: Final = struct.Struct("<16sQQIIIIQ")
assert _FIXED.size == 56
_FIXED_BYTES_V3: Final = 48
"""Size of the fixed part up to version 3: without the recovery point, which is its end."""

_REDELIVERY_BYTES_V1: Final = 12


class QueueState(Protocol):
    """The state of one queue incarnation, as a round of checkpoints takes it."""

    @property
    def incarnation(self) -> UUID:
        """Which queue, and which life of it."""

    def encode(self) -> bytes:
        """Return the queue's entry. Called in the thread that writes."""


@dataclass(frozen=True, slots=True)
class QueueCheckpoint:
    """Settlement of one queue incarnation; it may lag behind the truth, never lead it.

    Whoever makes one clips it to what is on the disk: nothing at or above the log's
    `recovery_point` may be in `ack_floor` or `acked_ranges`. After a power cut the log could end
    below an ack that led it, and the ack would then hide the new message that gets its offset.

    Attributes:
        incarnation: Which queue, and which life of it.
        ack_floor: All offsets below it are settled; >= 0, exclusive.
        acked_ranges: Settled ranges [start, end) above the floor: ascending, not overlapping.
        delivered_watermark: No offset at or above it was ever delivered; >= 0, exclusive.
        redeliveries: Runs (start, end, count) of offsets that were returned to the queue, and how
            often; with 0 they were delivered, and nobody knows how often. Some may be settled.
        recovery_point: All offsets below it were on the disk, in the queue's log; exclusive. 0 when
            the log was empty, or when this is not known.
    """

    incarnation: UUID
    ack_floor: int
    acked_ranges: list[tuple[int, int]] = field(default_factory=list)
    delivered_watermark: int = 0
    redeliveries: list[tuple[int, int, int]] = field(default_factory=list)
    recovery_point: int = 0

    @property
    def settled_end(self) -> int:
        """End of the highest offset that it says is settled, exclusive."""
        return max([self.ack_floor, *(end for _, end in self.acked_ranges)])

    @property
    def known_end(self) -> int:
        """Offset below which the log was on the disk, exclusive: what is settled was too (I4)."""
        return max(self.recovery_point, self.settled_end)

    def encode(self) -> bytes:
        """Return the queue's entry. O(acked ranges + redelivery counts)."""
        run_count, acked = 0, b""
        if self.acked_ranges:
            run_count, acked = encode_ranges(self.ack_floor, self.acked_ranges)
        return _entry(
            self.incarnation,
            self.ack_floor,
            self.delivered_watermark,
            run_count,
            acked,
            self.redeliveries,
            self.recovery_point,
        )


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """What a checkpoint is to say of one queue, as cheap to take as it can be.

    All that costs more than some nanoseconds a page of offsets is done by `encode`.

    Attributes:
        incarnation: Which queue, and which life of it.
        settled: Clipped to the log's `recovery_point`.
        delivered_watermark: No offset at or above it was ever delivered; >= 0, exclusive.
        redeliveries: Runs (start, end, count) of offsets that were returned to the queue, and how
            often; with 0 they were delivered, and nobody knows how often.
        recovery_point: Of the log: all offsets below it are on the disk; exclusive.
    """

    incarnation: UUID
    settled: SettlementSnapshot
    delivered_watermark: int = 0
    redeliveries: list[tuple[int, int, int]] = field(default_factory=list)
    recovery_point: int = 0

    def encode(self) -> bytes:
        """Return the queue's entry. O(pages + acked ranges + redelivery counts)."""
        run_count, acked = encode_snapshot(self.settled)
        return _entry(
            self.incarnation,
            self.settled.ack_floor,
            self.delivered_watermark,
            run_count,
            acked,
            self.redeliveries,
            self.recovery_point,
        )


def checkpoint_bytes(data: bytes, position: int) -> int:
    """Return the size of the entry at `position`, to be compared with what is there.

    Raises:
        struct.error: Fewer bytes are left than the fixed part has.
    """
    run_count, bitmap_bytes, count_v1, redelivery_count = _FIXED.unpack_from(data, position)[3:7]
    variable = ranges_bytes(run_count, bitmap_bytes)
    variable += count_v1 * _REDELIVERY_BYTES_V1 + redelivery_count * REDELIVERY_BYTES
    return _FIXED.size + int(variable)


def checkpoint_bytes_v3(data: bytes, position: int) -> int:
    """Return the size of an entry of version 1 to 3, as `checkpoint_bytes` does of a newer one.

    Raises:
        struct.error: As `checkpoint_bytes`.
    """
    fixed = data[position : position + _FIXED_BYTES_V3]
    return checkpoint_bytes(_with_recovery_point(fixed), 0) - (_FIXED.size - _FIXED_BYTES_V3)


def checkpoint_from_v3(entry: bytes) -> bytes:
    """Return an entry of version 1 to 3 as one of today: the recovery point is not known."""
    return _with_recovery_point(entry)


def decode_checkpoint(entry: bytes) -> QueueCheckpoint:
    """Read one queue's entry of the size that `checkpoint_bytes` gave."""
    incarnation, floor, watermark, run_count, bitmap_bytes, *rest = _FIXED.unpack_from(entry)
    count_v1, redelivery_count, recovery_point = rest
    position = _FIXED.size
    ranges = decode_ranges(floor, entry, position, run_count, bitmap_bytes)
    position += ranges_bytes(run_count, bitmap_bytes)
    redeliveries = _decode_counts_v1(entry, position, count_v1)
    position += count_v1 * _REDELIVERY_BYTES_V1
    redeliveries += decode_redeliveries(entry, position, redelivery_count)
    return QueueCheckpoint(
        UUID(bytes=incarnation), floor, ranges, watermark, redeliveries, recovery_point
    )


def _entry(
    incarnation: UUID,
    floor: int,
    watermark: int,
    run_count: int,
    acked: bytes,
    redeliveries: list[tuple[int, int, int]],
    recovery_point: int,
) -> bytes:
    counts = encode_redeliveries(redeliveries) if redeliveries else b""
    bitmap_bytes = 0 if run_count else len(acked)
    fixed = _FIXED.pack(
        incarnation.bytes,
        floor,
        watermark,
        run_count,
        bitmap_bytes,
        0,
        len(counts) // REDELIVERY_BYTES,
        recovery_point,
    )
    return fixed + acked + counts if acked or counts else fixed


def _with_recovery_point(entry: bytes) -> bytes:
    unknown = bytes(_FIXED.size - _FIXED_BYTES_V3)
    return entry[:_FIXED_BYTES_V3] + unknown + entry[_FIXED_BYTES_V3:]


def _decode_counts_v1(entry: bytes, position: int, number: int) -> list[tuple[int, int, int]]:
    """Read the counts of version 1: all offsets, then all counts."""
    offsets = struct.unpack_from(f"<{number}Q", entry, position)
    counts = struct.unpack_from(f"<{number}I", entry, position + 8 * number)
    return [(offset, offset + 1, count) for offset, count in zip(offsets, counts, strict=True)]
