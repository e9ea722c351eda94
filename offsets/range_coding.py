"""Encoding of acked ranges and returns in a checkpoint, the same for queues and groups.

docs/checkpoint-format.md, sections 3 and 4, describes it. Packing is in bulk: a million acked
ranges need no loop of small writes.
"""

import re
import struct
from typing import Final

from offsets.settlement_snapshot import SettlementSnapshot

_RUN: Final = struct.Struct("<QQ")
_RUN_BYTES: Final = _RUN.size
_REDELIVERY: Final = struct.Struct("<QII")
_U32_MAX: Final = (1 << 32) - 1
_ONES: Final = re.compile("1+")

REDELIVERY_BYTES: Final = _REDELIVERY.size
"""Size of one run of returns, in bytes."""


def ranges_bytes(run_count: int, bitmap_bytes: int) -> int:
    """Return the size of acked ranges in bytes; one of the two arguments is 0."""
    return run_count * _RUN_BYTES + bitmap_bytes


def encode_snapshot(settled: SettlementSnapshot) -> tuple[int, bytes]:
    """Return the number of runs (0 for a bitmap) and the smaller of the two encodings."""
    if not settled.pages and not settled.full_pages:
        return 0, b""
    run_count, end = settled.measure()
    if (end - settled.ack_floor + 7) // 8 < run_count * _RUN_BYTES:
        return 0, settled.bitmap(end)
    return run_count, b"".join([_RUN.pack(start, stop) for start, stop in settled.ranges()])


def encode_ranges(floor: int, ranges: list[tuple[int, int]]) -> tuple[int, bytes]:
    """Return the number of runs (0 for a bitmap) and the smaller of the two encodings."""
    assert floor <= ranges[0][0] < ranges[-1][1]
    span = ranges[-1][1] - floor
    if (span + 7) // 8 < len(ranges) * _RUN_BYTES:
        return 0, _bitmap_of_ranges(floor, ranges, span)
    flat = [offset for run in ranges for offset in run]
    return len(ranges), struct.pack(f"<{len(flat)}Q", *flat)


def decode_ranges(
    floor: int, entry: bytes, position: int, run_count: int, bitmap_bytes: int
) -> list[tuple[int, int]]:
    """Decode acked ranges above `floor` at `position`, from either encoding."""
    if run_count:
        flat = struct.unpack_from(f"<{2 * run_count}Q", entry, position)
        return list(zip(flat[::2], flat[1::2], strict=True))
    return _ranges_of_bitmap(floor, entry[position : position + bitmap_bytes])


def encode_redeliveries(runs: list[tuple[int, int, int]]) -> bytes:
    """Encode runs (start, end, count) of returned offsets."""
    return b"".join(
        [
            _REDELIVERY.pack(low, min(end - low, _U32_MAX), min(count, _U32_MAX))
            for start, end, count in runs
            for low in range(start, end, _U32_MAX)
        ]
    )


def decode_redeliveries(entry: bytes, position: int, number: int) -> list[tuple[int, int, int]]:
    """Decode a number of runs (start, end, count) of returned offsets."""
    runs = _REDELIVERY.iter_unpack(entry[position : position + number * REDELIVERY_BYTES])
    return [(start, start + length, count) for start, length, count in runs]


def _bitmap_of_ranges(floor: int, ranges: list[tuple[int, int]], span: int) -> bytes:
    # By way of a text of ones and zeros: parsing one in base 2 is linear, without a step per
    # offset. Setting bits in an integer of this size would copy it for every range.
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
