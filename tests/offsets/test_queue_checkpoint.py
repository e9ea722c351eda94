"""The form of one queue's checkpoint on the disk."""

import struct
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.queue_checkpoint import (
    QueueCheckpoint,
    checkpoint_bytes,
    decode_checkpoint,
    encode_checkpoint,
)

INCARNATION = UUID("00112233-4455-6677-8899-aabbccddeeff")


def acked_ranges(floor: int, steps: list[int]) -> list[tuple[int, int]]:
    edges = [floor]
    for step in steps:
        edges.append(edges[-1] + step)
    return [(start, end) for start, end in list(pairwise(edges))[1::2]]


steps = st.lists(st.integers(1, 20) | st.integers(1, 10_000), max_size=60)
checkpoints = st.builds(
    lambda incarnation, floor, steps, watermark, counts: QueueCheckpoint(
        incarnation, floor, acked_ranges(floor, steps), watermark, counts
    ),
    st.uuids(),
    st.integers(0, 2**63),
    steps,
    st.integers(0, 2**64 - 1),
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), max_size=10),
)


@given(checkpoints, st.binary(max_size=20), st.binary(max_size=20))
def test_a_checkpoint_round_trips_and_knows_its_size(
    checkpoint: QueueCheckpoint, before: bytes, behind: bytes
) -> None:
    entry = encode_checkpoint(checkpoint)
    assert decode_checkpoint(entry) == checkpoint
    assert checkpoint_bytes(before + entry + behind, len(before)) == len(entry)


def test_the_bytes_are_as_drawn_with_runs() -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 1, [(1000, 2000)], 7, {3: 9, 5: 2})
    assert encode_checkpoint(checkpoint) == (
        bytes.fromhex("00112233445566778899aabbccddeeff")
        + struct.pack("<QQIIII", 1, 7, 1, 0, 2, 0)
        + struct.pack("<QQ", 1000, 2000)
        + struct.pack("<QQII", 3, 5, 9, 2)
    )


def test_the_bytes_are_as_drawn_with_a_bitmap() -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 1, [(2, 4), (9, 10)], 10)
    assert encode_checkpoint(checkpoint) == (
        INCARNATION.bytes
        + struct.pack("<QQIIII", 1, 10, 0, 2, 0, 0)
        + bytes([0b0000_0110, 0b0000_0001])
    )


def test_an_idle_queue_takes_48_bytes() -> None:
    assert len(encode_checkpoint(QueueCheckpoint(INCARNATION, 5))) == 48


@pytest.mark.parametrize(
    ("ranges", "size"),
    [
        ([(1, 128)], 48 + 16),  # equal: runs
        ([(1, 120)], 48 + 15),  # a byte less: bitmap
        ([(1, 10**15)], 48 + 16),
        ([(offset, offset + 1) for offset in range(1, 80_000, 2)], 48 + 10_000),
    ],
    ids=["equal", "bitmap", "one-long-run", "alternating"],
)
def test_the_smaller_of_runs_and_bitmap_is_taken(ranges: list[tuple[int, int]], size: int) -> None:
    checkpoint = QueueCheckpoint(INCARNATION, 0, ranges)
    entry = encode_checkpoint(checkpoint)
    assert len(entry) == size
    assert decode_checkpoint(entry) == checkpoint


@pytest.mark.parametrize("ranges", [[(0, 2)], [(5, 8), (7, 9)], [(8, 9), (5, 6)]])
def test_ranges_that_are_below_the_floor_or_unordered_are_our_own_mistake(
    ranges: list[tuple[int, int]],
) -> None:
    with pytest.raises(AssertionError):
        encode_checkpoint(QueueCheckpoint(INCARNATION, 1, ranges))
