"""Groups in checkpoint files: written, removed, compacted, damaged, and files without any."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from appendlog.files.filesystem import FileSystem
from offsets import CheckpointStore
from offsets.checkpoint_reading import checkpoint_path, read_checkpoint
from offsets.queue_checkpoint import QueueCheckpoint
from offsets.round_frame import encode_front
from tests.offsets.checkpoint_samples import (
    QUEUES,
    by_name,
    group,
    open_store,
    read,
    read_groups,
    state,
    write_rounds,
)


def open_empty(directory: Path, compaction_bytes_min: int = 1 << 20) -> CheckpointStore:
    store, states, _ = open_store(directory, compaction_bytes_min=compaction_bytes_min)
    assert (states, store.take_groups()) == ({}, {})
    return store


def test_later_states_of_a_group_win_and_equal_names_of_two_queues_are_two_groups(
    tmp_path: Path,
) -> None:
    store = open_empty(tmp_path)
    store.write_round([state(0, 5)], groups=[group(0, "g", 1), group(1, "g", 2)])
    store.write_round([], groups=[group(0, "g", 3), group(0, "new", None)])
    store.close()
    expected = by_name(group(0, "g", 3), group(1, "g", 2), group(0, "new", None))
    assert read_groups(tmp_path) == expected
    assert read(tmp_path) == {QUEUES[0]: state(0, 5)}
    assert read_checkpoint(tmp_path, FileSystem()).group_checkpoints() == expected


def test_groups_are_handed_over_once(tmp_path: Path) -> None:
    store = open_empty(tmp_path)
    store.write_round([], groups=[group(0, "g", 1)])
    store.close()
    store, _, _ = open_store(tmp_path)
    assert store.take_groups() == by_name(group(0, "g", 1))
    assert store.take_groups() == {}


def test_a_base_holds_all_groups(tmp_path: Path) -> None:
    store = open_empty(tmp_path)
    store.write_round([], groups=[group(0, "g", 1), group(0, "h", 2)])
    store.write_round([], groups=[group(0, "g", 3)])
    store.supersede()
    store.close()
    checkpoint_path(tmp_path, 1).unlink()
    assert read_groups(tmp_path) == by_name(group(0, "g", 3), group(0, "h", 2))
    # And that of the next run, which is told of none.
    write_rounds(tmp_path, [state(0, 1)])
    checkpoint_path(tmp_path, 2).unlink()
    assert read_groups(tmp_path) == by_name(group(0, "g", 3), group(0, "h", 2))


def test_a_removed_group_does_not_come_back(tmp_path: Path) -> None:
    store = open_empty(tmp_path)
    store.write_round([], groups=[group(0, "g", 1), group(0, "h", 2), group(1, "g", 3)])
    store.write_round([], removed_groups=[(QUEUES[0], "g"), (QUEUES[0], "x"), (QUEUES[3], "g")])
    store.close()
    left = by_name(group(0, "h", 2), group(1, "g", 3))
    assert read_groups(tmp_path) == left
    store, _, _ = open_store(tmp_path)
    # Not after a compaction either, nor when the last of a queue goes.
    store.write_round([], removed_groups=[(QUEUES[0], "h")])
    store.close()
    assert read_groups(tmp_path) == by_name(group(1, "g", 3))


def test_a_group_that_is_made_anew_is_only_what_it_is_now(tmp_path: Path) -> None:
    store = open_empty(tmp_path)
    store.write_round([], groups=[group(0, "g", 5)])
    store.write_round([], removed_groups=[(QUEUES[0], "g")])
    store.write_round([], groups=[group(0, "g", None)])
    store.close()
    assert read_groups(tmp_path) == by_name(group(0, "g", None))


def test_a_removed_queue_takes_its_groups_with_it(tmp_path: Path) -> None:
    store = open_empty(tmp_path)
    groups = [group(0, f"g{number}", number) for number in range(20)]
    store.write_round([state(0, 5), state(1, 6)], groups=[*groups, group(1, "g0", 1)])
    store.write_round([], removed=[QUEUES[0], QUEUES[3]])
    store.close()
    assert read_groups(tmp_path) == by_name(group(1, "g0", 1))
    store, states, _ = open_store(tmp_path)
    assert states == {QUEUES[1]: state(1, 6)}
    # Also one of which nothing but groups is known.
    store.write_round([], removed=[QUEUES[1]])
    store.write_round([], groups=[group(2, "g", 1)])
    store.write_round([], removed=[QUEUES[2]])
    store.close()
    assert read_groups(tmp_path) == {}


def test_groups_count_for_the_size_at_which_a_file_is_compacted(tmp_path: Path) -> None:
    store = open_empty(tmp_path, compaction_bytes_min=0)
    groups = [group(0, f"g{number}", number) for number in range(50)]
    for _ in range(12):
        store.write_round([], groups=groups)
    assert store.generation == 3
    store.write_round([], removed=[QUEUES[0]])
    for floor in range(6):
        store.write_round([state(1, floor)])
    assert store.generation > 3
    store.close()
    assert read_groups(tmp_path) == {}


@pytest.mark.parametrize(
    ("removed", "removed_groups"), [([QUEUES[0]], []), ([], [(QUEUES[0], "g")])]
)
def test_a_group_that_is_written_and_removed_in_one_round_is_our_own_mistake(
    tmp_path: Path, removed: list[object], removed_groups: list[object]
) -> None:
    store = open_empty(tmp_path)
    with pytest.raises(AssertionError):
        store.write_round(
            [],
            removed,  # type: ignore[arg-type]
            groups=[group(0, "g", 1)],
            removed_groups=removed_groups,  # type: ignore[arg-type]
        )


def test_a_tail_torn_at_any_byte_leaves_the_groups_before_it(tmp_path: Path) -> None:
    store = open_empty(tmp_path / "whole")
    path = checkpoint_path(tmp_path / "whole", 1)
    store.write_round([], groups=[group(0, "日本", 1), group(1, "g", 2)])
    ends = [path.stat().st_size]
    store.write_round([state(1, 5)], groups=[group(0, "日本", 3)])
    ends.append(path.stat().st_size)
    store.write_round([], groups=[group(2, "h", 1)], removed_groups=[(QUEUES[1], "g")])
    store.close()
    whole = path.read_bytes()
    before = [
        by_name(group(0, "日本", 1), group(1, "g", 2)),
        by_name(group(0, "日本", 3), group(1, "g", 2)),
    ]
    for expected, start, end in zip(before, ends, [ends[1], len(whole)], strict=True):
        for cut in range(start, end):
            path.write_bytes(whole[:cut])
            assert read_groups(path.parent) == expected
    path.write_bytes(whole)
    assert read_groups(path.parent) == by_name(group(0, "日本", 3), group(2, "h", 1))


def test_any_flipped_byte_is_found_and_never_makes_a_group_lead(tmp_path: Path) -> None:
    store = open_empty(tmp_path)
    store.write_round([], groups=[group(0, "g", 1), group(1, "g", 2)])
    store.write_round([], groups=[group(0, "g", 3)])
    store.write_round([], groups=[group(1, "g", 4)], removed_groups=[(QUEUES[2], "g")])
    store.write_round([], clean=True)
    store.close()
    path = checkpoint_path(tmp_path, 1)
    whole = path.read_bytes()
    possible = {
        (QUEUES[0], "g"): [group(0, "g", 1), group(0, "g", 3)],
        (QUEUES[1], "g"): [group(1, "g", 2), group(1, "g", 4)],
    }
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        store, _, was_clean = open_store(tmp_path)
        assert not was_clean
        assert store.recovery.rounds == 3
        for key, found in store.take_groups().items():
            assert found in possible[key]


@pytest.mark.parametrize(
    ("at", "octets"),
    [
        (56 + 17, b"\xff"),  # a longer name
        (56 + 17, b"\x00"),
        (56 + 20, b"\x03"),  # more runs
        (56 + 24, b"\x01"),  # a bitmap too
        (56 + 28, b"\xff"),  # more returns
        (56 + 96, b"\xff"),  # a name that is no UTF-8
        (-6, b"\xff"),  # a removed group with a longer name
        (-6, b"\x00"),
    ],
)
def test_a_round_whose_groups_do_not_fit_is_damage_although_its_crc_does(
    tmp_path: Path, at: int, octets: bytes
) -> None:
    store = open_empty(tmp_path)
    store.write_round([state(3, 1)])
    store.close()
    store, _, _ = open_store(tmp_path)
    store.write_round([])
    store.write_round([], groups=[group(0, "g", 1)], removed_groups=[(QUEUES[1], "other")])
    store.close()
    path = checkpoint_path(tmp_path, 2)
    content = path.read_bytes()
    start = content.rindex(b"AQCP")
    round_ = bytearray(content[start:])
    round_[at : at + len(octets) or None] = octets
    round_[4:8] = crc32c(bytes(round_[8:])).to_bytes(4, "little")
    path.write_bytes(content[:start] + round_)
    store, states, was_clean = open_store(tmp_path)
    assert (states, store.take_groups()) == ({QUEUES[3]: state(3, 1)}, {})
    assert not was_clean
    assert store.recovery.torn_bytes == len(round_)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rounds_of_older_versions_are_read_and_continued(tmp_path: Path, version: int) -> None:
    """Literal: 32 bytes behind the front, entries, then removed incarnations.

    In version 3 two numbers stand before them, and groups behind them. No entry says how far its
    log was on the disk.
    """
    idle = QueueCheckpoint(QUEUES[0], 7, [], 9)
    rounds = []
    for number, (entries, removed) in enumerate(
        [([idle, QueueCheckpoint(QUEUES[1], 5)], []), ([], [QUEUES[1].bytes])]
    ):
        content = struct.pack(
            "<BBHIIIQq",
            version,
            1 if number == 0 else 0,
            0,
            len(entries),
            len(removed),
            number,
            4,
            0,
        )
        old_groups = [group(2, "old", 5)] if version == 3 and number == 0 else []
        if version == 3:
            content += struct.pack("<II", len(old_groups), 0)
        content += b"".join(without_recovery_point(each.encode(), 48) for each in entries)
        content += b"".join(removed)
        content += b"".join(without_recovery_point(each.encode(), 88) for each in old_groups)
        rounds += [encode_front(b"AQCP", [content]), content]
    checkpoint_path(tmp_path, 4).write_bytes(b"".join(rounds))
    store, states, _ = open_store(tmp_path)
    kept = [replace(group(2, "old", 5), recovery_point=0)] if version == 3 else []
    assert (states, store.take_groups()) == ({QUEUES[0]: idle}, by_name(*kept))
    assert not store.recovery.damaged_files
    store.write_round([], groups=[group(0, "g", 1)])
    store.close()
    assert read(tmp_path) == {QUEUES[0]: idle}
    assert read_groups(tmp_path) == by_name(group(0, "g", 1), *kept)
    store, _, _ = open_store(tmp_path)
    store.write_round([replace(idle, recovery_point=9)])
    store.close()
    assert read(tmp_path) == {QUEUES[0]: replace(idle, recovery_point=9)}


def without_recovery_point(entry: bytes, fixed_bytes: int) -> bytes:
    """Return an entry as it was before version 4: its fixed part was that long."""
    return entry[:fixed_bytes] + entry[fixed_bytes + 8 :]
