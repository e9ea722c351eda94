"""A log that failed for want of room is taken into use again, with what it promised and no more."""

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from appendlog import Append, Log, LogFailedError, LogReader
from tests.appendlog.builders import (
    append,
    append_in_parts,
    chunk,
    expected,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.sampled import some_of_each_kind

SEGMENT_BYTES = 700


def fail_somewhere(log: Log, make: Callable[[Log, Append], object]) -> None:
    """Append, roll and retain until something fails."""
    end = log.log_end_offset
    for start in range(end, end + 60, 6):
        chunks = [chunk(start, start + 3), chunk(start + 3, start + 6)]
        make(log, Append(chunks, start + 6, sync=start % 4 != 0))
        if start % 24 == 0:
            log.roll()


SEEDS = [None, 0, 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [Log.append, append_in_parts])
def test_after_a_failure_at_any_operation_the_log_goes_on_where_it_was(
    tmp_path: Path, make: Callable[[Log, Append], object], seed: int | None
) -> None:
    """Every third operation of each kind fails, with each seed another one."""
    (tmp_path / "whole").mkdir()
    whole = FaultyFileSystem(tmp_path / "whole")
    fail_somewhere(open_log(tmp_path / "whole" / "v" / "q", whole, SEGMENT_BYTES)[0], make)
    assert len(whole.operations) > 40
    for number in some_of_each_kind(whole.operations, SEEDS.index(seed), len(SEEDS)):
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, number, errno.ENOSPC)
        log, _ = open_log(root / "v" / "q", filesystem, SEGMENT_BYTES)
        with pytest.raises(LogFailedError):
            fail_somewhere(log, make)
        end, point = log.log_end_offset, log.recovery_point
        with suppress(LogFailedError):
            # The disk still takes nothing; where nothing has to be changed that is no hindrance.
            log.reopen()
        filesystem.fail_at = None
        if log.failed is not None:
            assert log.reopen().lost == []
        assert point <= end <= log.log_end_offset == log.recovery_point
        assert read_all(log) == expected(0, log.log_end_offset)
        # What was refused has no place any more: others have its offsets.
        again = log.log_end_offset
        append(log, again, again + 30)
        assert read_all(log) == expected(0, again + 30)
        filesystem.power_cut(None if seed is None else random.Random(f"{seed} {number}"))
        recovered, _ = open_log(root / "v" / "q", segment_bytes=SEGMENT_BYTES)
        assert read_all(recovered) == expected(0, again + 30)


def test_nothing_of_a_refused_append_is_left(tmp_path: Path) -> None:
    """Written in full and then refused for the sync's sake, it came back at the next start."""
    filesystem = FaultyFileSystem(tmp_path, has_dsync=False)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 6)
    # The write itself succeeds; what fails is its sync.
    filesystem.fail_at = len(filesystem.operations) + 1
    filesystem.error = errno.ENOSPC
    with pytest.raises(LogFailedError):
        log.append(Append([chunk(6, 9)], 9, sync=True))
    filesystem.fail_at = None
    log.reopen()
    assert read_all(log) == expected(0, 6)
    assert read_all(open_log(tmp_path / "q")[0]) == expected(0, 6)
    assert LogReader(tmp_path / "q").log_end_offset == 6


def test_what_was_appended_without_a_sync_stays_when_a_removal_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken back like an append that had failed, though it had been confirmed."""
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, SEGMENT_BYTES)
    append(log, 0, 30)
    append(log, 30, 36, sync=False)

    def refuse(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "sync_directory", refuse)
        with pytest.raises(LogFailedError):
            log.remove_settled(20)
    assert log.reopen().lost == []
    assert read_all(log, 20) == expected(20, 36)


def test_a_log_that_failed_before_anything_was_written_begins_again(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path, 2, errno.ENOSPC)
    log, _ = open_log(tmp_path / "v" / "q", filesystem)
    with pytest.raises(LogFailedError):
        append(log, 0, 3)
    filesystem.fail_at = None
    log.reopen()
    append(log, 0, 3)
    filesystem.power_cut()
    assert read_all(open_log(tmp_path / "v" / "q")[0]) == expected(0, 3)


def test_no_segment_that_a_refused_append_began_is_written_to_again(tmp_path: Path) -> None:
    """Still open, it took the next messages of its name, and had no name itself."""
    number = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, number, errno.ENOSPC)
        log, _ = open_log(root / "q", filesystem, SEGMENT_BYTES)
        try:
            append(log, 0, 3)
            # Of several segments: some of them are sealed before one fails.
            log.append(
                Append([chunk(start, start + 3) for start in range(3, 18, 3)], 18, sync=True)
            )
            break
        except LogFailedError:
            filesystem.fail_at = None
        log.reopen()
        end = log.log_end_offset
        append(log, end, end + 30)
        assert read_all(log) == expected(0, end + 30)
        assert read_all(open_log(root / "q")[0]) == expected(0, end + 30)
        number += 1
    assert number > 20


def test_settled_segments_of_a_failed_log_can_be_removed(tmp_path: Path) -> None:
    """They may be what has filled the disk."""
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, SEGMENT_BYTES)
    append(log, 0, 30)
    filesystem.fail_at, filesystem.error = len(filesystem.operations), errno.ENOSPC
    with pytest.raises(LogFailedError):
        append(log, 30, 33)
    filesystem.fail_at = None
    assert log.remove_settled(20) > 0
    log.reopen()
    append(log, 30, 33)
    assert read_all(log) == expected(log.log_start_offset, 33)
