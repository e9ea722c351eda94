"""A machine that stops, or a disk that fails, at every operation of the checkpoint store."""

import errno
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from offsets.errors import CheckpointFailedError
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError
from tests.offsets.checkpoint_samples import (
    QUEUES,
    Groups,
    States,
    by_name,
    group,
    open_store,
    read,
    read_groups,
    state,
    write_rounds,
)

Everything = tuple[States, Groups]


def run_until_stopped(
    directory: Path, filesystem: FileSystem
) -> tuple[Everything, Everything | None, bool | None]:
    """Write rounds; return the acknowledged states, and those of the round in flight if any."""
    store, states, _ = open_store(directory, filesystem, compaction_bytes_min=1000)
    groups = store.take_groups()
    for floor in range(1, 8):
        changed = [state(floor % 3, floor)]
        changed_groups = [group(floor % 2, "a:b/é", floor), group(floor % 3, "other", floor)]
        removed = [QUEUES[1]] if floor == 6 else []
        removed_groups = [(QUEUES[0], "a:b/é")] if floor == 3 else []
        clean = floor == 7
        if removed:
            changed_groups = [each for each in changed_groups if each.incarnation not in removed]
        after = states | {s.incarnation: s for s in changed}
        groups_after = groups | by_name(*changed_groups)
        for incarnation in removed:
            after.pop(incarnation, None)
        groups_after = {
            key: found
            for key, found in groups_after.items()
            if key not in removed_groups and key[0] not in removed
        }
        try:
            store.write_round(changed, removed, clean, changed_groups, removed_groups)
        except StoppedError:
            return (states, groups), (after, groups_after), clean
        states, groups = after, groups_after
    store.close()
    return (states, groups), None, None


@pytest.mark.crash
@pytest.mark.parametrize("has_dsync", [True, False])
@pytest.mark.parametrize("loses_unsynced", [True, False])
@pytest.mark.parametrize("written_bytes", [0, 50, 1_000_000])
def test_a_stop_at_any_operation_keeps_every_acknowledged_round(
    tmp_path: Path, written_bytes: int, loses_unsynced: bool, has_dsync: bool
) -> None:
    for stop_at in range(1000):
        directory = tmp_path / str(stop_at) / "offsets"
        directory.parent.mkdir()
        write_rounds(directory, [state(3, 1)], clean=True)
        filesystem = FaultyFileSystem(
            directory.parent, stop_at, StoppedError(), has_dsync, written_bytes=written_bytes
        )
        acknowledged, in_flight, was_last = run_until_stopped(directory, filesystem)
        filesystem.end_process()
        if loses_unsynced:
            filesystem.power_cut()
        store, states, was_clean = open_store(directory)
        assert not store.recovery.damaged_files
        found = (states, store.take_groups())
        if in_flight is None:
            assert (found, was_clean) == (acknowledged, True)
            return
        assert found in (acknowledged, in_flight)
        # Clean is only what nothing was written after: the old run's stop, or this one's.
        if was_clean:
            assert found == (in_flight if was_last else ({QUEUES[3]: state(3, 1)}, {}))
    raise AssertionError


@pytest.mark.crash
@pytest.mark.parametrize("has_dsync", [True, False])
@pytest.mark.parametrize("written_bytes", [0, 50, 1_000_000])
def test_after_a_disk_error_at_any_operation_the_next_round_saves_everything(
    tmp_path: Path, written_bytes: int, has_dsync: bool
) -> None:
    for fault_at in range(1000):
        directory = tmp_path / str(fault_at) / "offsets"
        directory.parent.mkdir()
        fault = OSError(errno.EIO, "Input/output error")
        filesystem = FaultyFileSystem(
            directory.parent,
            fault_at,
            fault,
            has_dsync,
            failing_operations=1,
            written_bytes=written_bytes,
        )
        store, _, _ = open_store(directory, filesystem, compaction_bytes_min=300)
        failures = []
        for floor in range(1, 8):
            try:
                store.write_round(
                    [state(floor % 3, floor)],
                    groups=[group(0, "kept", floor)],
                    removed_groups=[(QUEUES[0], "kept too")] if floor == 6 else [],
                )
            except CheckpointFailedError as error:
                failures.append(error.cause)
                assert not filesystem.open_count
            else:
                expected = {
                    QUEUES[f % 3]: state(f % 3, f) for f in range(max(floor - 2, 1), floor + 1)
                }
                assert read(directory) == expected
                assert read_groups(directory) == by_name(group(0, "kept", floor))
        store.close()
        assert not filesystem.open_count
        assert failures in ([], [fault])
        if len(filesystem.operations) <= fault_at:
            return
    raise AssertionError
