"""A machine that stops, or a disk that fails, at every operation of the redo journal."""

import errno
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from offsets.errors import RedoFailedError, RedoUnknownError
from offsets.redo_transaction import RedoTransaction
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError
from tests.offsets.redo_samples import open_journal, read, transaction, transactions, write_rounds

pytestmark = pytest.mark.crash


def run_until_stopped(directory: Path, filesystem: FileSystem) -> tuple[set[int], set[int]]:
    """Commit, roll and remove; return the committed transactions that must be there, and may."""
    journal = open_journal(directory, filesystem)
    needed: set[int] = set()
    possible = set(range(2))  # the ones of the run before
    try:
        journal.finish_recovery([transaction(0)])
        first_file = journal.last_number + 1
        for number in range(2, 8):
            possible.add(number)
            journal.write(first_file + number // 2, [transaction(number)])
            needed.add(number)
            if number == 5:
                needed -= {2, 3}
                journal.remove([first_file + 1])
    except StoppedError:
        return needed, possible
    journal.close()
    return needed, set(range(8))


@pytest.mark.parametrize("has_dsync", [True, False])
@pytest.mark.parametrize("loses_unsynced", [True, False])
@pytest.mark.parametrize("written_bytes", [0, 50, 1_000_000])
def test_a_stop_at_any_operation_keeps_every_committed_transaction(
    tmp_path: Path, written_bytes: int, loses_unsynced: bool, has_dsync: bool
) -> None:
    for stop_at in range(1000):
        directory = tmp_path / str(stop_at)
        write_rounds(directory, transactions(0, 2))
        filesystem = FaultyFileSystem(
            tmp_path, stop_at, StoppedError(), has_dsync, written_bytes=written_bytes
        )
        needed, possible = run_until_stopped(directory, filesystem)
        filesystem.end_process()
        if loses_unsynced:
            filesystem.power_cut()
        journal = open_journal(directory)
        assert not journal.recovery.damaged_files
        found = {int.from_bytes(each.transaction_id, "big") for each in read(directory)}
        assert needed | {0} <= found <= possible
        assert all(
            each == transaction(int.from_bytes(each.transaction_id, "big"))
            for each in journal.recovery.transactions
        )
        if stop_at >= len(filesystem.operations):
            assert found == {0, 4, 5, 6, 7}
            return
    raise AssertionError


@pytest.mark.parametrize("has_dsync", [True, False])
@pytest.mark.parametrize("written_bytes", [0, 50, 1_000_000])
def test_a_disk_error_at_any_operation_is_told_and_leaves_no_refused_transaction(
    tmp_path: Path, written_bytes: int, has_dsync: bool
) -> None:
    for fault_at in range(1000):
        directory = tmp_path / str(fault_at)
        fault = OSError(errno.EIO, "Input/output error")
        filesystem = FaultyFileSystem(
            tmp_path, fault_at, fault, has_dsync, failing_operations=1, written_bytes=written_bytes
        )
        journal = open_journal(directory, filesystem)
        committed: list[RedoTransaction] = []
        file_number = 1
        for number in range(6):
            try:
                journal.write(file_number, [transaction(number)])
                committed.append(transaction(number))
            except RedoFailedError:
                file_number += 1
            if number == 3:
                file_number += 1
        journal.close()
        assert not filesystem.open_count
        assert read(directory) == committed
        if fault_at >= len(filesystem.operations):
            assert committed == transactions(0, 6)
            return
        assert len(committed) == 5
    raise AssertionError


def test_a_round_that_cannot_be_taken_back_holds_up_the_journal_until_it_can(
    tmp_path: Path,
) -> None:
    class BrokenDisk(FileSystem):
        is_broken = False
        is_stuck = True

        def pwritev(self, *_: object) -> int:
            if self.is_broken:
                raise OSError(errno.EIO, "Input/output error")
            return super().pwritev(*_)  # type: ignore[arg-type]

        def truncate(self, descriptor: int, size: int) -> None:
            if self.is_stuck:
                raise OSError(errno.EIO, "Input/output error")
            super().truncate(descriptor, size)

    filesystem = BrokenDisk()
    journal = open_journal(tmp_path, filesystem)
    journal.write(1, transactions(0, 1))
    filesystem.is_broken = True
    with pytest.raises(RedoUnknownError):
        journal.write(1, transactions(1, 2))
    filesystem.is_broken = False
    with pytest.raises(RedoFailedError) as refusal:
        journal.write(2, transactions(2, 3))
    assert not isinstance(refusal.value, RedoUnknownError), "nothing of it was written"
    assert read(tmp_path) == transactions(0, 1)
    filesystem.is_stuck = False
    journal.write(2, transactions(3, 4))
    journal.close()
    assert read(tmp_path) == [*transactions(0, 1), *transactions(3, 4)]


def test_files_that_cannot_be_removed_are_told(tmp_path: Path) -> None:
    write_rounds(tmp_path, transactions(0, 1))
    journal = open_journal(tmp_path, FaultyFileSystem(tmp_path, 0))
    with pytest.raises(RedoFailedError):
        journal.finish_recovery([])
    assert read(tmp_path) == transactions(0, 1)
