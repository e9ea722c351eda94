"""What a checkpoint remembers of one queue, and its form on the disk.

The form is drawn in docs/checkpoint-format.md, section 3. Packing is in bulk: ten thousand queues
are encoded in some milliseconds, and a million acked ranges without a loop of small writes.
"""

import re
import struct
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from offsets.settlement_snapshot import SettlementSnapshot

_FIXED: Final = struct.Struct("<16sQQIIII")
assert _FIXED.size == 48

_RUN: Final = struct.Struct("<QQ")
_RUN_BYTES: Final = _RUN.size
_REDELIVERY: Final = struct.Struct("<QII")
_REDELIVERY_BYTES_V1: Final = 12
_U32_MAX: Final = (1 << 32) - 1
_ONES: Final = re.compile("1+")


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
    """

    incarnation: UUID
    ack_floor: int
    acked_ranges: list[tuple[int, int]] = field(default_factory=list)
    delivered_watermark: int = 0
    redeliveries: list[tuple[int, int, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Return the queue's entry. O(acked ranges + redelivery counts)."""
        run_count, acked = 0, b""
        if self.acked_ranges:
            run_count, acked = _encode_ranges(self.ack_floor, self.acked_ranges)
        return _entry(
            self.incarnation,
            self.ack_floor,
            self.delivered_watermark,
            run_count,
            acked,
            self.redeliveries,
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
    """

    incarnation: UUID
    settled: SettlementSnapshot
    delivered_watermark: int = 0
    redeliveries: list[tuple[int, int, int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Return the queue's entry. O(pages + acked ranges + redelivery counts)."""
        run_count, acked = _encode_snapshot(self.settled)
        return _entry(
            self.incarnation,
            self.settled.ack_floor,
            self.delivered_watermark,
            run_count,
            acked,
            self.redeliveries,
        )


def checkpoint_bytes(data: bytes, position: int) -> int:
    """Return the size of the entry at `position`, to be compared with what is there.

    Raises:
        struct.error: Fewer bytes are left than the fixed part has.
    """
    fields = _FIXED.unpack_from(data, position)
    run_count, bitmap_bytes, count_v1, redelivery_count = fields[3:]
    variable = run_count * _RUN_BYTES + bitmap_bytes
    variable += count_v1 * _REDELIVERY_BYTES_V1 + redelivery_count * _REDELIVERY.size
    return _FIXED.size + int(variable)


def decode_checkpoint(entry: bytes) -> QueueCheckpoint:
    """Read one queue's entry of the size that `checkpoint_bytes` gave."""
    incarnation, floor, watermark, run_count, bitmap_bytes, count_v1, redelivery_count = (
        _FIXED.unpack_from(entry)
    )
    position = _FIXED.size
    if run_count:
        flat = struct.unpack_from(f"<{2 * run_count}Q", entry, position)
        ranges = list(zip(flat[::2], flat[1::2], strict=True))
        position += run_count * _RUN_BYTES
    else:
        ranges = _ranges_of_bitmap(floor, entry[position : position + bitmap_bytes])
        position += bitmap_bytes
    redeliveries = _decode_counts_v1(entry, position, count_v1)
    position += count_v1 * _REDELIVERY_BYTES_V1
    runs = _REDELIVERY.iter_unpack(entry[position : position + redelivery_count * _REDELIVERY.size])
    redeliveries += [(start, start + length, count) for start, length, count in runs]
    return QueueCheckpoint(UUID(bytes=incarnation), floor, ranges, watermark, redeliveries)


def _entry(
    incarnation: UUID,
    floor: int,
    watermark: int,
    run_count: int,
    acked: bytes,
    redeliveries: list[tuple[int, int, int]],
) -> bytes:
    counts = _encode_redeliveries(redeliveries) if redeliveries else b""
    bitmap_bytes = 0 if run_count else len(acked)
    fixed = _FIXED.pack(
        incarnation.bytes,
        floor,
        watermark,
        run_count,
        bitmap_bytes,
        0,
        len(counts) // _REDELIVERY.size,
    )
    return fixed + acked + counts if acked or counts else fixed


def _encode_snapshot(settled: SettlementSnapshot) -> tuple[int, bytes]:
    """Return the number of runs (0 for a bitmap) and the smaller of the two forms."""
    if not settled.pages and not settled.full_pages:
        return 0, b""
    run_count, end = settled.measure()
    if (end - settled.ack_floor + 7) // 8 < run_count * _RUN_BYTES:
        return 0, settled.bitmap(end)
    return run_count, b"".join([_RUN.pack(start, stop) for start, stop in settled.ranges()])


def _encode_ranges(floor: int, ranges: list[tuple[int, int]]) -> tuple[int, bytes]:
    """Return the number of runs (0 for a bitmap) and the smaller of the two forms."""
    assert floor <= ranges[0][0] < ranges[-1][1]
    span = ranges[-1][1] - floor
    if (span + 7) // 8 < len(ranges) * _RUN_BYTES:
        return 0, _bitmap_of_ranges(floor, ranges, span)
    flat = [offset for run in ranges for offset in run]
    return len(ranges), struct.pack(f"<{len(flat)}Q", *flat)


def _bitmap_of_ranges(floor: int, ranges: list[tuple[int, int]], span: int) -> bytes:
    # Through a text of ones and zeros: reading one of base 2 is linear, and no step is taken
    # per offset. Setting bits in an integer of this size would copy it for every range.
    parts: list[str] = []
    position = floor
    for start, end in ranges:
        parts.append("0" * (start - position))
        parts.append("1" * (end - start))
        position = end
    digits = "".join(parts)
    assert len(digits) == span, "acked ranges must be ascending and disjoint"
    return int(digits[::-1], 2).to_bytes((span + 7) // 8, "little")


def _ranges_of_bitmap(floor: int, bitmap: bytes) -> list[tuple[int, int]]:
    digits = f"{int.from_bytes(bitmap, 'little'):b}"[::-1]
    return [(floor + run.start(), floor + run.end()) for run in _ONES.finditer(digits)]


def _encode_redeliveries(runs: list[tuple[int, int, int]]) -> bytes:
    return b"".join(
        [
            _REDELIVERY.pack(low, min(end - low, _U32_MAX), min(count, _U32_MAX))
            for start, end, count in runs
            for low in range(start, end, _U32_MAX)
        ]
    )


def _decode_counts_v1(entry: bytes, position: int, number: int) -> list[tuple[int, int, int]]:
    """Read the counts of version 1: all offsets, then all counts."""
    offsets = struct.unpack_from(f"<{number}Q", entry, position)
    counts = struct.unpack_from(f"<{number}I", entry, position + 8 * number)
    return [(offset, offset + 1, count) for offset, count in zip(offsets, counts, strict=True)]
