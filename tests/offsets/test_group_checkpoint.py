"""The form of one group's checkpoint on the disk."""

import random
import struct
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets import GroupCheckpoint, GroupOffsets, GroupSnapshot, RegressingCommitError
from offsets.group_checkpoint import (
    decode_group_checkpoint,
    decode_group_key,
    encode_group_key,
    group_checkpoint_bytes,
    group_key,
)

INCARNATION = UUID("00112233-4455-6677-8899-aabbccddeeff")
NOW_NS = 1_790_000_000_000_000_000

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
counts = st.integers(0, 2**64 - 1)


def acked_ranges(floor: int, steps: list[int]) -> list[tuple[int, int]]:
    edges = [floor]
    for step in steps:
        edges.append(edges[-1] + step)
    return [(start, end) for start, end in list(pairwise(edges))[1::2]]


steps = st.lists(st.integers(1, 20) | st.integers(1, 10_000), max_size=40)
redeliveries = st.lists(
    st.builds(
        lambda start, length, count: (start, start + length, count),
        st.integers(0, 2**63),
        st.integers(1, 2**32 - 1),
        st.integers(0, 2**32 - 1),
    ),
    max_size=5,
)
with_place = st.builds(
    lambda incarnation, name, floor, commit, steps, watermark, returns, *numbers: GroupCheckpoint(
        incarnation,
        name,
        floor,
        min(commit, floor),
        bool(floor % 2),
        acked_ranges(floor, steps),
        watermark,
        returns,
        *numbers,
    ),
    *[st.uuids(), names, st.integers(0, 2**60), st.integers(0, 2**60), steps, counts, redeliveries],
    *[counts, counts, counts, st.integers(0, 2**63 - 1), counts],
)
without_place = st.builds(
    lambda incarnation, name, dropped: GroupCheckpoint(incarnation, name, dropped_total=dropped),
    *[st.uuids(), names, counts],
)


@given(with_place | without_place, st.binary(max_size=20), st.binary(max_size=20))
def test_a_group_round_trips_and_knows_its_size_and_its_key(
    checkpoint: GroupCheckpoint, before: bytes, behind: bytes
) -> None:
    entry = checkpoint.encode()
    assert decode_group_checkpoint(entry) == checkpoint
    assert group_checkpoint_bytes(before + entry + behind, len(before)) == len(entry)
    key = encode_group_key(checkpoint.incarnation, checkpoint.name)
    place = len(before)
    assert decode_group_key(before + key + behind, place) == (group_key(entry), place + len(key))


def test_the_bytes_are_as_drawn() -> None:
    checkpoint = GroupCheckpoint(
        INCARNATION,
        "a:é",
        start=11,
        commit_floor=10,
        is_committed=True,
        acked_ranges=[(1000, 2000)],
        delivered_watermark=2001,
        redeliveries=[(13, 15, 9)],
        dropped_total=6,
        dropped_since_last_poll=5,
        redelivered=4,
        updated_at_ns=NOW_NS,
        recovery_point=2002,
    )
    assert checkpoint.known_end == 2002
    assert checkpoint.encode() == (
        bytes.fromhex("00112233445566778899aabbccddeeff")
        + struct.pack("<BBHIII", 3, 4, 0, 1, 0, 1)
        + struct.pack("<QQQQQQqQ", 11, 10, 2001, 6, 5, 4, NOW_NS, 2002)
        + b"a:\xc3\xa9"
        + struct.pack("<QQ", 1000, 2000)
        + struct.pack("<QII", 13, 2, 9)
    )
    assert encode_group_key(INCARNATION, "a:é") == INCARNATION.bytes + b"\x04a:\xc3\xa9"


def test_a_bitmap_is_taken_where_it_is_smaller() -> None:
    ranges = [(offset, offset + 1) for offset in range(1, 80_000, 2)]
    checkpoint = GroupCheckpoint(INCARNATION, "g", 0, 0, is_committed=True, acked_ranges=ranges)
    entry = checkpoint.encode()
    assert len(entry) == 96 + 1 + 10_000
    assert decode_group_checkpoint(entry) == checkpoint


@pytest.mark.parametrize("name", ["g", "x" * 255, "é" * 127, "日本語", "a:b/c%2F"])
def test_no_commit_and_a_commit_of_0_are_two_things_under_any_name(name: str) -> None:
    new, begun, committed = (GroupOffsets(name) for _ in range(3))
    begun.start_at(0, NOW_NS)
    committed.commit(0, 0, 9, NOW_NS)
    found = [
        decode_group_checkpoint(GroupSnapshot.of(each, INCARNATION, 9).encode())
        for each in (new, begun, committed)
    ]
    assert [each.start for each in found] == [None, 0, 0]
    assert [each.committed for each in found] == [None, None, 0]
    again = [each.offsets(9) for each in found]
    assert [each.start for each in again] == [None, 0, 0]
    assert [each.committed for each in again] == [None, None, 0]
    assert [each.commit_floor for each in again] == [None, 0, 0]
    assert {each.name for each in again} == {name}
    assert not any(each.changed for each in again)


@given(
    st.integers(0, 3000),
    steps,
    st.integers(0, 70_000),
    st.booleans(),
    redeliveries,
    st.randoms(),
)
def test_a_snapshot_says_what_the_group_was_below_the_recovery_point(
    floor: int,
    steps: list[int],
    end: int,
    commits: bool,
    returns: list[tuple[int, int, int]],
    order: random.Random,
) -> None:
    group = GroupOffsets("g")
    group.start_at(floor, NOW_NS)
    ranges = acked_ranges(floor, steps)
    order.shuffle(ranges)
    for start, stop in ranges:
        group.settle(start, stop, NOW_NS + 1)
    if commits:
        group.commit(floor + 3, 0, 10**9, NOW_NS + 2)
    group.drop_below(floor + 1)
    group.note_redelivered(3)
    snapshot = GroupSnapshot.of(group, INCARNATION, end, 7, returns)
    expected = GroupCheckpoint(
        INCARNATION,
        "g",
        min(group.settlement.ack_floor, end),
        min(group.commit_floor or 0, end),
        group.committed is not None,
        group.settlement.ranges(end) if end > group.settlement.ack_floor else [],
        7,
        returns,
        group.dropped_total,
        group.dropped_since_last_poll,
        3,
        group.updated_at_ns,
        end,
    )
    group.seek(0, 0, 10**9, NOW_NS + 3)
    group.take_dropped()
    assert decode_group_checkpoint(snapshot.encode()) == expected


def test_a_group_comes_back_with_all_that_it_was() -> None:
    group = GroupOffsets("g")
    group.start_at(10, NOW_NS)
    group.settle(12, 15, NOW_NS)
    group.commit(12, 0, 100, NOW_NS + 1)
    group.drop_below(17)
    group.settle(20, 30, NOW_NS + 2)
    group.note_redelivered(4)
    entry = GroupSnapshot.of(group, INCARNATION, 100).encode()
    again = decode_group_checkpoint(entry).offsets(100)
    assert GroupSnapshot.of(again, INCARNATION, 100) == GroupSnapshot.of(group, INCARNATION, 100)
    assert not again.changed
    # A commit may be repeated after a restart too, though the floor lies behind it.
    assert again.commit(12, 17, 100, NOW_NS + 3) == 0
    with pytest.raises(RegressingCommitError):
        again.commit(11, 17, 100, NOW_NS + 3)


@pytest.mark.parametrize(
    ("log_end", "floor", "ranges"),
    [(100, 10, [(20, 30), (40, 50)]), (45, 10, [(20, 30), (40, 45)]), (20, 10, []), (5, 5, [])],
)
def test_what_lies_behind_the_end_of_a_log_that_lost_some_is_forgotten(
    log_end: int, floor: int, ranges: list[tuple[int, int]]
) -> None:
    checkpoint = GroupCheckpoint(
        INCARNATION, "g", 10, 10, is_committed=True, acked_ranges=[(20, 30), (40, 50)]
    )
    group = checkpoint.offsets(log_end)
    assert (group.committed, group.commit_floor) == (floor, floor)
    assert group.settlement.ranges() == ranges
    assert group.changed == (log_end < 50)
