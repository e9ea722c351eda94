"""The form of one queue's checkpoint on the disk."""

import random
import struct
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.queue_checkpoint import (
    QueueCheckpoint,
    QueueSnapshot,
    checkpoint_bytes,
    checkpoint_bytes_v3,
    checkpoint_from_v3,
    decode_checkpoint,
)
from offsets.settlement import Settlement

INCARNATION = UUID("00112233-4455-6677-8899-aabbccddeeff")


def acked_ranges(floor: int, steps: list[int]) -> list[tuple[int, int]]:
    edges = [floor]
    for step in steps:
        edges.append(edges[-1] + step)
    return [(start, end) for start, end in list(pairwise(edges))[1::2]]


steps = st.lists(st.integers(1, 20) | st.integers(1, 10_000), max_size=60)
checkpoints = st.builds(
    lambda incarnation, floor, steps, watermark, counts, point: QueueCheckpoint(
        incarnation, floor, acked_ranges(floor, steps), watermark, counts, point
    ),
    st.uuids(),
    st.integers(0, 2**63),
    steps,
    st.integers(0, 2**64 - 1),
    st.lists(
        st.builds(
            lambda start, length, count: (start, start + length, count),
            st.integers(0, 2**63),
            st.integers(1, 2**32 - 1),
            st.integers(0, 2**32 - 1),
        ),
        max_size=10,
    ),
    st.integers(0, 2**64 - 1),
)


@given(checkpoints, st.binary(max_size=20), st.binary(max_size=20))
def test_a_checkpoint_round_trips_and_knows_its_size(
    checkpoint: QueueCheckpoint, before: bytes, behind: bytes
) -> None:
    entry = checkpoint.encode()
    assert decode_checkpoint(entry) == checkpoint
    assert checkpoint_bytes(before + entry + behind, len(before)) == len(entry)


def test_the_bytes_are_as_drawn_with_runs() -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 1, [(1000, 2000)], 7, [(3, 5, 9), (5, 6, 2)], 2001)
    assert checkpoint.encode() == (
        bytes.fromhex("00112233445566778899aabbccddeeff")
        + struct.pack("<QQIIIIQ", 1, 7, 1, 0, 0, 2, 2001)
        + struct.pack("<QQ", 1000, 2000)
        + struct.pack("<QII", 3, 2, 9)
        + struct.pack("<QII", 5, 1, 2)
    )


def test_the_counts_of_version_1_are_read() -> None:
    entry = (
        INCARNATION.bytes
        + struct.pack("<QQIIII", 1, 7, 1, 0, 2, 0)
        + struct.pack("<QQ", 1000, 2000)
        + struct.pack("<QQII", 3, 5, 9, 2)
    )
    assert checkpoint_bytes_v3(b"..." + entry + b"...", 3) == len(entry)
    found = checkpoint_from_v3(entry)
    assert checkpoint_bytes(found, 0) == len(found)
    assert decode_checkpoint(found) == QueueCheckpoint(
        INCARNATION, 1, [(1000, 2000)], 7, [(3, 4, 9), (5, 6, 2)]
    )


@given(checkpoints)
def test_an_entry_of_before_there_were_recovery_points_says_all_else(
    checkpoint: QueueCheckpoint,
) -> None:
    entry = checkpoint.encode()
    old = entry[:48] + entry[56:]
    assert checkpoint_bytes_v3(old, 0) == len(old)
    assert decode_checkpoint(checkpoint_from_v3(old)) == replace(checkpoint, recovery_point=0)


@pytest.mark.parametrize("size", [0, 16, 47])
def test_an_old_entry_that_is_cut_short_is_told(size: int) -> None:
    with pytest.raises(struct.error):
        checkpoint_bytes_v3(bytes(size), 0)


@pytest.mark.parametrize(
    ("floor", "ranges", "point", "end"),
    [(0, [], 0, 0), (3, [], 0, 3), (3, [(5, 9)], 7, 9), (3, [(5, 9)], 12, 12)],
)
def test_the_log_reached_at_least_to_what_was_settled_and_to_its_recovery_point(
    floor: int, ranges: list[tuple[int, int]], point: int, end: int
) -> None:
    assert QueueCheckpoint(INCARNATION, floor, ranges, 99, [(1, 2, 3)], point).known_end == end


def test_a_run_of_returns_longer_than_a_field_is_several() -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 1, [], 7, [(3, 3 + 2**33, 2**40)])
    found = decode_checkpoint(checkpoint.encode()).redeliveries
    assert found[0] == (3, 3 + 2**32 - 1, 2**32 - 1)
    assert sum(end - start for start, end, _ in found) == 2**33


def test_the_bytes_are_as_drawn_with_a_bitmap() -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 1, [(2, 4), (9, 10)], 10)
    assert checkpoint.encode() == (
        INCARNATION.bytes
        + struct.pack("<QQIIIIQ", 1, 10, 0, 2, 0, 0, 0)
        + bytes([0b0000_0110, 0b0000_0001])
    )


def test_an_idle_queue_takes_56_bytes() -> None:
    assert len(QueueCheckpoint(INCARNATION, 5).encode()) == 56


@pytest.mark.parametrize(
    ("ranges", "size"),
    [
        ([(1, 128)], 56 + 16),  # equal: runs
        ([(1, 120)], 56 + 15),  # a byte less: bitmap
        ([(1, 10**15)], 56 + 16),
        ([(offset, offset + 1) for offset in range(1, 80_000, 2)], 56 + 10_000),
    ],
    ids=["equal", "bitmap", "one-long-run", "alternating"],
)
def test_the_smaller_of_runs_and_bitmap_is_taken(ranges: list[tuple[int, int]], size: int) -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 0, ranges)
    entry = checkpoint.encode()
    assert len(entry) == size
    assert decode_checkpoint(entry) == checkpoint


@pytest.mark.parametrize("ranges", [[(0, 2)], [(5, 8), (7, 9)], [(8, 9), (5, 6)]])
def test_ranges_that_are_below_the_floor_or_unordered_are_our_own_mistake(
    ranges: list[tuple[int, int]],
) -> None:
    with pytest.raises(AssertionError):
        QueueCheckpoint(INCARNATION, 1, ranges).encode()


@given(st.integers(0, 5000), steps, st.integers(0, 70_000), st.randoms())
def test_a_snapshot_says_what_the_list_of_its_ranges_says(
    floor: int, steps: list[int], end: int, order: random.Random
) -> None:
    """Cut anywhere by the recovery point, and settled in any order."""
    settlement = Settlement(floor)
    ranges = acked_ranges(floor, steps)
    order.shuffle(ranges)
    for start, stop in ranges:
        settlement.settle(start, stop)
    snapshot = QueueSnapshot(INCARNATION, settlement.snapshot(end), 7, [(5, 7, 2)], end)
    clipped = settlement.ranges(end) if end > floor else []
    assert list(snapshot.settled.ranges()) == clipped
    checkpoint = QueueCheckpoint(
        INCARNATION, min(settlement.ack_floor, end), clipped, 7, [(5, 7, 2)], end
    )
    assert snapshot.encode() == checkpoint.encode()


def test_a_snapshot_stays_what_it_was_when_more_is_settled() -> None:
    settlement = Settlement(0, [(5, 10), (2000, 5000)])
    snapshot = settlement.snapshot(10_000)
    settlement.settle(0, 6000)
    assert snapshot.ack_floor == 0
    assert list(snapshot.ranges()) == [(5, 10), (2000, 5000)]


def test_a_snapshot_with_runs_of_whole_pages_and_single_acks_is_a_bitmap() -> None:
    settlement = Settlement(3)
    for start in range(4, 40_000, 2):
        settlement.settle(start, start + 1)
    settlement.settle(10_000, 30_000)
    entry = QueueSnapshot(INCARNATION, settlement.snapshot(50_000)).encode()
    checkpoint = QueueCheckpoint(INCARNATION, 3, settlement.ranges())
    assert entry == checkpoint.encode()
    assert decode_checkpoint(entry) == checkpoint


def test_a_snapshot_of_very_many_pages_is_in_order_too() -> None:
    settlement = Settlement(0)
    pages = list(range(1, 10_000, 2))
    random.Random(1).shuffle(pages)
    for page in pages:
        settlement.settle(page * 1024 + 7, page * 1024 + 9)
        settlement.settle(page * 1024 + 20_000_000, page * 1024 + 20_001_500)
    settlement.settle(30_000_000, 35_000_000)
    snapshot = settlement.snapshot(40_000_000)
    assert len(snapshot.pages) + len(snapshot.full_pages) > 8192
    assert list(snapshot.ranges()) == settlement.ranges()
