"""Checkpoint of one queue, and its format on the disk.

docs/checkpoint-format.md, section 3, describes the format. Packing is in bulk: encoding ten
thousand queues takes some milliseconds.
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
"""Size of the fixed part up to version 3, which lacks the recovery point at the end."""

_REDELIVERY_BYTES_V1: Final = 12


class QueueState(Protocol):
    """State of one queue incarnation, for a round of checkpoints."""

    @property
    def incarnation(self) -> UUID:
        """Incarnation of the queue."""

    def encode(self) -> bytes:
        """Return the queue's entry. The writing thread calls it."""


@dataclass(frozen=True, slots=True)
class QueueCheckpoint:
    """Settlement of one queue incarnation; may be out of date, but never settles too much.

    The creator clips it to what is on the disk: `ack_floor` and `acked_ranges` must not contain
    offsets at or above the log's `recovery_point`. Otherwise, after a power cut, the log could end
    before an acked offset, and that ack would hide the new message which gets the offset.

    Attributes:
        incarnation: Incarnation of the queue.
        ack_floor: Offset, exclusive, below which everything is settled; >= 0.
        acked_ranges: Settled ranges [start, end) above the floor: ascending, not overlapping.
        delivered_watermark: Offset, exclusive, below which all deliveries were; >= 0.
        redeliveries: Runs (start, end, count) of offsets that were returned to the queue, with the
            number of returns; 0 means delivered an unknown number of times. Some may be settled.
        recovery_point: Offset, exclusive, below which the log was on the disk; 0 if the log was
            empty or this is unknown.
    """

    incarnation: UUID
    ack_floor: int
    acked_ranges: list[tuple[int, int]] = field(default_factory=list)
    delivered_watermark: int = 0
    redeliveries: list[tuple[int, int, int]] = field(default_factory=list)
    recovery_point: int = 0

    @property
    def settled_end(self) -> int:
        """End of the highest settled offset, exclusive."""
        return max([self.ack_floor, *(end for _, end in self.acked_ranges)])

    @property
    def known_end(self) -> int:
        """Offset below which the log was on the disk, exclusive: settled offsets were too (I4)."""
        return max(self.recovery_point, self.settled_end)

    def encode(self) -> bytes:
        """Return the queue's entry. O(acked ranges + redelivery counts)."""
        run_count = 0
        acked = b""
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
    """State of one queue at one moment, as cheap to take as possible.

    `encode` does everything that costs more than some nanoseconds for a page of offsets.

    Attributes:
        incarnation: Incarnation of the queue.
        settled: Settled offsets, clipped to the log's `recovery_point`.
        delivered_watermark: Offset, exclusive, below which all deliveries were; >= 0.
        redeliveries: Runs (start, end, count) of offsets that were returned to the queue, with the
            number of returns; 0 means delivered an unknown number of times.
        recovery_point: Offset, exclusive, below which the log is on the disk.
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
    """Return the size of the entry at `position`; the caller compares it with the bytes left.

    Raises:
        struct.error: Fewer bytes are left than the fixed part has.
    """
    run_count, bitmap_bytes, count_v1, redelivery_count = _FIXED.unpack_from(data, position)[3:7]
    variable = ranges_bytes(run_count, bitmap_bytes)
    variable += count_v1 * _REDELIVERY_BYTES_V1 + redelivery_count * REDELIVERY_BYTES
    return _FIXED.size + int(variable)


def checkpoint_bytes_v3(data: bytes, position: int) -> int:
    """Return the size of an entry of version 1 to 3; see `checkpoint_bytes`.

    Raises:
        struct.error: As for `checkpoint_bytes`.
    """
    fixed = data[position : position + _FIXED_BYTES_V3]
    return checkpoint_bytes(_with_recovery_point(fixed), 0) - (_FIXED.size - _FIXED_BYTES_V3)


def checkpoint_from_v3(entry: bytes) -> bytes:
    """Convert an entry of version 1 to 3 to the present one, with an unknown recovery point."""
    return _with_recovery_point(entry)


def decode_checkpoint(entry: bytes) -> QueueCheckpoint:
    """Decode a queue's entry, which has the size of `checkpoint_bytes`."""
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
    """Decode the counts of version 1: all offsets, then all counts."""
    offsets = struct.unpack_from(f"<{number}Q", entry, position)
    counts = struct.unpack_from(f"<{number}I", entry, position + 8 * number)
    return [(offset, offset + 1, count) for offset, count in zip(offsets, counts, strict=True)]
