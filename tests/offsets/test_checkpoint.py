"""Checkpoints: written, torn, damaged, compacted, read again."""

import errno
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c

from appendlog.files.filesystem import FileSystem
from offsets.checkpoint import CheckpointStore
from offsets.checkpoint_reading import checkpoint_path, read_checkpoint
from offsets.errors import CheckpointFailedError, UnsupportedCheckpointError
from offsets.queue_checkpoint import QueueCheckpoint
from tests.offsets.checkpoint_samples import QUEUES, States, open_store, read, state, write_rounds


def test_an_empty_directory_gives_no_state_and_was_not_clean(tmp_path: Path) -> None:
    _, states, was_clean = open_store(tmp_path / "offsets")
    assert (states, was_clean) == ({}, False)
    assert not (tmp_path / "offsets").exists()


def test_later_states_of_an_incarnation_win(tmp_path: Path) -> None:
    write_rounds(tmp_path / "offsets", [state(0, 5), state(1, 6)], [state(0, 7)], [])
    assert read(tmp_path / "offsets") == {QUEUES[0]: state(0, 7), QUEUES[1]: state(1, 6)}


def test_removed_incarnations_do_not_come_back(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path)
    store.write_round([state(0, 5), state(1, 6), state(2, 7)])
    store.write_round([state(0, 6)], removed=[QUEUES[1], QUEUES[4]])
    store.close()
    store, states, _ = open_store(tmp_path)
    assert states == {QUEUES[0]: state(0, 6), QUEUES[2]: state(2, 7)}
    # And not after a compaction either, which is what the first round of a run is.
    store.write_round([], removed=[QUEUES[2]])
    store.close()
    assert read(tmp_path) == {QUEUES[0]: state(0, 6)}


def test_a_state_of_a_removed_incarnation_in_the_same_round_is_our_own_mistake(
    tmp_path: Path,
) -> None:
    store, _, _ = open_store(tmp_path)
    with pytest.raises(AssertionError):
        store.write_round([state(0, 1)], removed=[QUEUES[0]])


def test_a_clean_stop_is_on_record_until_the_next_round(tmp_path: Path) -> None:
    write_rounds(tmp_path, [state(0, 5)], [state(0, 6)], clean=True)
    for _ in range(2):
        store, states, was_clean = open_store(tmp_path)
        assert (states, was_clean) == ({QUEUES[0]: state(0, 6)}, True)
    store.write_round(())
    store.close()
    store, states, was_clean = open_store(tmp_path)
    assert (states, was_clean) == ({QUEUES[0]: state(0, 6)}, False)


def test_a_clean_round_can_be_the_only_one_and_can_be_followed(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path)
    store.write_round([state(0, 5)], clean=True)
    assert open_store(tmp_path)[2]
    store.write_round([state(0, 6)])
    assert not open_store(tmp_path)[2]
    store.close()
    store.close()


def test_a_round_after_close_begins_a_new_generation(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path)
    store.write_round([state(0, 5)])
    store.close()
    store.write_round([state(1, 6)])
    store.close()
    assert checkpoint_path(tmp_path, 2).exists()
    assert read(tmp_path) == {QUEUES[0]: state(0, 5), QUEUES[1]: state(1, 6)}


def test_a_grown_file_is_compacted_and_its_predecessor_kept(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path, compaction_bytes_min=500)
    for floor in range(100):
        store.write_round([state(floor % 3, floor)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    store.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    generations = [int(name[11:31]) for name in names]
    assert generations[1] == generations[0] + 1
    assert generations[0] > 5
    assert read(tmp_path) == {QUEUES[floor % 3]: state(floor % 3, floor) for floor in (97, 98, 99)}


def test_a_large_live_state_is_not_compacted_at_every_round(tmp_path: Path) -> None:
    store, _, _ = open_store(tmp_path, compaction_bytes_min=0)
    everything = [state(queue, 1) for queue in range(5)]
    for _ in range(12):
        store.write_round(everything)
    store.close()
    assert int(max(tmp_path.iterdir()).name[11:31]) == 3


def test_a_tail_torn_at_any_byte_leaves_the_rounds_before_it(tmp_path: Path) -> None:
    rounds = [[state(0, 1), state(1, 2)], [state(0, 3)], [state(1, 4), state(2, 5)]]
    ends = [
        write_rounds(tmp_path / str(count), *rounds[:count]).stat().st_size for count in (1, 2, 3)
    ]
    whole = write_rounds(tmp_path / "whole", *rounds, clean=True).read_bytes()
    expected: States = {}
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        for cut in range(start, end):
            directory = tmp_path / f"cut-{cut}"
            directory.mkdir()
            checkpoint_path(directory, 1).write_bytes(whole[:cut])
            store, states, was_clean = open_store(directory)
            assert (states, was_clean) == (expected, False)
            assert store.recovery.torn_bytes == cut - start
            assert store.recovery.rounds == number
            # Only a file without its base is damaged: the base was synced before the rename.
            assert bool(store.recovery.damaged_files) == (number == 0)
        expected = expected | {state.incarnation: state for state in rounds[number]}
    assert read(tmp_path / "whole") == expected


def test_what_looks_like_a_round_inside_a_torn_one_is_none(tmp_path: Path) -> None:
    lookalike = QueueCheckpoint(UUID(bytes=b"AQCP" * 4), 1)
    path = write_rounds(tmp_path, [state(0, 1)], [lookalike])
    path.write_bytes(path.read_bytes()[:-1])
    store, states, _ = open_store(tmp_path)
    assert states == {QUEUES[0]: state(0, 1)}
    assert store.recovery.torn_bytes == 56 + 56 - 1
    assert not store.recovery.damaged_files


def test_writing_goes_on_after_a_torn_tail_without_touching_it(tmp_path: Path) -> None:
    path = write_rounds(tmp_path, [state(0, 1)], [state(0, 2)])
    torn = path.read_bytes()[:-1]
    path.write_bytes(torn)
    write_rounds(tmp_path, [state(1, 3)])
    assert path.read_bytes() == torn
    assert read(tmp_path) == {QUEUES[0]: state(0, 1), QUEUES[1]: state(1, 3)}


def test_any_flipped_byte_is_found_and_never_makes_the_state_lead(tmp_path: Path) -> None:
    rounds = [[state(0, 1), state(1, 2)], [state(0, 3)], [state(1, 4)], [state(0, 5)]]
    path = write_rounds(tmp_path, *rounds, clean=True)
    whole = path.read_bytes()
    possible = {
        state.incarnation: [s for r in rounds for s in r if s.incarnation == state.incarnation]
        for state in rounds[0]
    }
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        store, states, was_clean = open_store(tmp_path)
        assert not was_clean
        assert store.recovery.rounds == 3
        assert store.recovery.torn_bytes or store.recovery.damaged_files == [path]
        for incarnation, found in states.items():
            assert found in possible[incarnation]


def test_rounds_behind_a_damaged_one_still_count(tmp_path: Path) -> None:
    base = [state(0, 1), state(1, 1)]
    base_bytes = write_rounds(tmp_path / "base", base).stat().st_size
    path = write_rounds(tmp_path, base, [state(0, 2)], [state(1, 3)])
    content = bytearray(path.read_bytes())
    content[base_bytes + 60] ^= 1
    path.write_bytes(content)
    store, states, _ = open_store(tmp_path)
    assert states == {QUEUES[0]: state(0, 1), QUEUES[1]: state(1, 3)}
    assert store.recovery.damaged_files == [path]


def spoil_by_removing(path: Path) -> None:
    path.unlink()


def spoil_by_emptying(path: Path) -> None:
    path.write_bytes(b"")


def spoil_by_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def spoil_by_a_directory_in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


def spoil_the_base(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)


def spoil_by_another_generations_content(path: Path) -> None:
    path.write_bytes(checkpoint_path(path.parent, 1).read_bytes())


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_by_removing,
        spoil_by_emptying,
        spoil_by_zeros,
        spoil_by_a_directory_in_its_place,
        spoil_by_another_generations_content,
    ],
)
def test_the_previous_generation_is_used_when_the_newest_is_unreadable(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    write_rounds(tmp_path, [state(0, 1)], [state(1, 2)])
    newest = write_rounds(tmp_path, [state(0, 9)])
    spoil(newest)
    store, states, was_clean = open_store(tmp_path)
    assert states == {QUEUES[0]: state(0, 1), QUEUES[1]: state(1, 2)}
    assert not was_clean
    # The next run numbers on, and works.
    store.write_round([state(2, 3)])
    store.close()
    assert read(tmp_path) == states | {QUEUES[2]: state(2, 3)}


def test_what_is_readable_of_the_newest_goes_on_top_of_the_previous(tmp_path: Path) -> None:
    write_rounds(tmp_path, [state(0, 1), state(1, 1)])
    newest = write_rounds(tmp_path, [state(0, 2)], [state(2, 3)])
    spoil_the_base(newest)
    store, states, _ = open_store(tmp_path)
    assert states == {QUEUES[0]: state(0, 1), QUEUES[1]: state(1, 1), QUEUES[2]: state(2, 3)}
    assert store.recovery.damaged_files == [newest]
    assert store.recovery.sources == [checkpoint_path(tmp_path, 1), newest]
    store.close()


def test_a_flipped_byte_of_the_previous_generation_changes_nothing(tmp_path: Path) -> None:
    previous = write_rounds(tmp_path, [state(0, 1)], [state(1, 2)])
    write_rounds(tmp_path, [state(0, 9)], [state(1, 8)], clean=True)
    whole = previous.read_bytes()
    expected = {QUEUES[0]: state(0, 9), QUEUES[1]: state(1, 8)}
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        previous.write_bytes(flipped)
        _, states, was_clean = open_store(tmp_path)
        assert (states, was_clean) == (expected, True)


@pytest.mark.parametrize("in_base", [True, False])
def test_flipped_bytes_in_both_generations_never_make_the_state_lead(
    tmp_path: Path, in_base: bool
) -> None:
    previous = write_rounds(tmp_path, [state(0, 1), state(1, 1)], [state(0, 2)], [state(1, 3)])
    newest = write_rounds(tmp_path, [state(0, 4)], [state(1, 5)], [state(0, 6)])
    possible = {QUEUES[0]: {1, 2, 4, 6}, QUEUES[1]: {1, 3, 5}}
    content = bytearray(newest.read_bytes())
    content[60 if in_base else -1] ^= 1
    newest.write_bytes(content)
    whole = previous.read_bytes()
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        previous.write_bytes(flipped)
        store, states, was_clean = open_store(tmp_path)
        assert not was_clean
        assert bool(store.recovery.torn_bytes) or newest in store.recovery.damaged_files
        for incarnation, found in states.items():
            assert found.ack_floor in possible[incarnation]
            assert found == state(QUEUES.index(incarnation), found.ack_floor)


def test_nothing_readable_is_no_state_and_was_not_clean(tmp_path: Path) -> None:
    write_rounds(tmp_path, [state(0, 1)])
    write_rounds(tmp_path, [state(0, 2)], clean=True)
    for path in tmp_path.iterdir():
        spoil_the_base(path)
    store, states, was_clean = open_store(tmp_path)
    assert (states, was_clean, store.recovery.rounds) == ({}, False, 0)
    store.write_round([state(0, 3)])
    store.close()
    assert read(tmp_path) == {QUEUES[0]: state(0, 3)}


def test_what_was_superseded_is_not_read_though_the_newest_file_is_damaged(tmp_path: Path) -> None:
    """The log of the queue was lost: its old state would hide new messages."""
    write_rounds(tmp_path, [state(0, 100)])
    store, _, _ = open_store(tmp_path)
    store.write_round([state(0, 0)])
    store.supersede()
    store.close()
    assert read(tmp_path) == {QUEUES[0]: state(0, 0)}
    spoil_the_base(max(tmp_path.glob("*.log")))
    assert read(tmp_path) == {QUEUES[0]: state(0, 0)}


def test_a_damaged_file_is_put_aside_once_two_generations_stand_without_it(
    tmp_path: Path,
) -> None:
    newest = write_rounds(tmp_path, [state(0, 1)])
    spoil_the_base(newest)
    store, _, _ = open_store(tmp_path, compaction_bytes_min=0)
    store.write_round([state(1, 2)])
    assert newest.exists()
    for _ in range(6):
        store.write_round([state(1, 3)])
    store.close()
    assert not newest.exists()
    assert newest.with_name(f"{newest.name}.damaged").exists()


def test_files_that_are_not_ours_are_left_alone_and_left_overs_removed(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("")
    (tmp_path / "checkpoint-00000000000000000007.log.tmp").write_text("half")
    write_rounds(tmp_path, [state(0, 1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README",
        "checkpoint-00000000000000000001.log",
    ]


def test_another_version_is_refused_not_skipped(tmp_path: Path) -> None:
    path = write_rounds(tmp_path, [state(0, 1)])
    content = bytearray(path.read_bytes())
    content[16] = 5
    content[4:8] = crc32c(bytes(content[8:])).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(UnsupportedCheckpointError) as refused:
        open_store(tmp_path)
    assert (refused.value.path, refused.value.found, refused.value.supported) == (path, 5, 4)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        *[(20, 9), (20, 0), (24, 9), (24, 1), (56 + 32, 200), (56 + 40, 2**31)],
        *[(48, 1), (48, 9), (52, 1), (52, 2**31)],
    ],
    ids=[
        *["entries", "no-entries", "removed", "one-removed", "runs", "counts"],
        *["one-group", "groups", "one-removed-group", "removed-groups"],
    ],
)
def test_a_round_whose_numbers_do_not_fit_is_damage_although_its_crc_does(
    tmp_path: Path, at: int, value: int
) -> None:
    path = write_rounds(tmp_path, [state(0, 1)])
    content = bytearray(path.read_bytes())
    content[at : at + 4] = value.to_bytes(4, "little")
    content[4:8] = crc32c(bytes(content[8:])).to_bytes(4, "little")
    path.write_bytes(content)
    store, states, was_clean = open_store(tmp_path)
    assert (states, was_clean) == ({}, False)
    assert store.recovery.damaged_files == [path]


def test_a_file_that_goes_away_while_reading_is_not_needed(tmp_path: Path) -> None:
    class Vanishing(FileSystem):
        def listdir(self, path: Path) -> list[str]:
            return [*super().listdir(path), "checkpoint-00000000000000000009.log"]

    write_rounds(tmp_path, [state(0, 1)], clean=True)
    found = read_checkpoint(tmp_path, Vanishing())
    assert found.was_clean
    assert found.generation == 9
    assert list(found.entries) == [QUEUES[0].bytes]


def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("")
    with pytest.raises(CheckpointFailedError) as failed:
        open_store(tmp_path / "offsets")
    assert isinstance(failed.value.cause, NotADirectoryError)


def test_a_full_disk_while_superseded_files_are_removed_fails_no_round(tmp_path: Path) -> None:
    class Undeletable(FileSystem):
        def unlink(self, path: Path) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

    store, _, _ = open_store(tmp_path, Undeletable(), compaction_bytes_min=0)
    for floor in range(20):
        store.write_round([state(0, floor)])
    store.close()
    assert len(list(tmp_path.iterdir())) > 2
    assert read(tmp_path) == {QUEUES[0]: state(0, 19)}
    write_rounds(tmp_path, [state(0, 20)])
    assert len(list(tmp_path.iterdir())) == 2


def test_a_descriptor_that_fails_to_close_fails_no_round(tmp_path: Path) -> None:
    class Unclosable(FileSystem):
        def close(self, descriptor: int) -> None:
            super().close(descriptor)
            raise OSError(errno.EIO, "Input/output error")

    store, _, _ = CheckpointStore.open(tmp_path, Unclosable())
    store.write_round([state(0, 1)])
    store.close()
    assert read(tmp_path) == {QUEUES[0]: state(0, 1)}
