"""Every file operation fails in turn, then the power goes; what was promised must be there."""

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from appendlog import Append, Log, LogFailedError
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


class Promise:
    """What a run was told: all below `durable` is on the disk; `floor` was settled."""

    def __init__(self) -> None:
        self.durable = 0
        self.written = 0
        self.floor = 0


def append_all(log: Log, promise: Promise) -> None:
    for first in range(0, 30, 3):
        sync = first % 2 == 0
        promise.written = first + 3
        log.append(Append([chunk(first, first + 3)], first + 3, sync=sync))
        promise.durable = log.recovery_point


def append_all_in_parts(log: Log, promise: Promise) -> None:
    """As the flusher does: readers may see an append before the log has taken it in."""
    for first in range(0, 60, 3):
        sync = first % 15 != 0
        promise.written = first + 3
        append_in_parts(log, Append([chunk(first, first + 3)], first + 3, sync=sync))
        promise.durable = log.recovery_point


def append_and_retain(log: Log, promise: Promise) -> None:
    append_all(log, promise)
    retain(log, promise)


def append_in_parts_and_retain(log: Log, promise: Promise) -> None:
    append_all_in_parts(log, promise)
    retain(log, promise)


def retain(log: Log, promise: Promise) -> None:
    promise.floor = 14
    log.remove_settled(promise.floor)
    end = log.log_end_offset
    promise.written = end + 6
    append(log, end, end + 6)
    promise.durable = log.recovery_point
    log.close()


def run(
    directory: Path, filesystem: FaultyFileSystem, script: Callable[[Log, Promise], None]
) -> Promise:
    promise = Promise()
    try:
        log, _ = open_log(directory, filesystem, SEGMENT_BYTES)
        script(log, promise)
    except LogFailedError:
        pass
    return promise


def check(directory: Path, promise: Promise) -> None:
    """Open what is left, twice, and go on; nothing promised may be missing or reused."""
    # A checkpoint knows what was settled before anything of it is removed.
    floor = promise.floor
    log, report = open_log(directory, segment_bytes=SEGMENT_BYTES, settled_floor=floor)
    found = read_all(log)
    assert log.log_end_offset >= promise.durable, report
    assert log.recovery_point == log.log_end_offset
    kept = expected(max(log.log_start_offset, floor), promise.durable)
    assert {offset: found.get(offset) for offset in kept} == kept, report
    assert found.items() <= expected(0, promise.written).items()
    assert log.log_start_offset <= promise.floor
    end = log.log_end_offset
    append(log, end, end + 4)
    assert read_all(log).items() >= expected(end, end + 4).items()
    log.close()
    log, _ = open_log(directory, segment_bytes=SEGMENT_BYTES)
    assert read_all(log) == found | expected(end, end + 4)


def operations_of(
    root: Path, script: Callable[[Log, Promise], None], has_dsync: bool = True
) -> list[str]:
    """Return the operations of a run in which nothing fails, which leaves all that it wrote."""
    root.mkdir()
    filesystem = FaultyFileSystem(root, has_dsync=has_dsync)
    check(root / "v" / "q", run(root / "v" / "q", filesystem, script))
    return filesystem.operations


SCRIPTS = pytest.mark.parametrize("script", [append_and_retain, append_in_parts_and_retain])


@pytest.mark.crash
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("has_dsync", [True, False], ids=["dsync", "fdatasync"])
@SCRIPTS
def test_a_failure_at_any_operation_loses_nothing_promised(
    tmp_path: Path, error: int, has_dsync: bool, script: Callable[[Log, Promise], None]
) -> None:
    """Every second of each kind fails with the one error, the others with the other one."""
    operations = operations_of(tmp_path / "whole", script, has_dsync)
    for number in some_of_each_kind(operations, int(error == errno.ENOSPC), 2):
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, number, error, has_dsync)
        promise = run(root / "v" / "q", filesystem, script)
        assert len(filesystem.operations) > number
        check(root / "v" / "q", promise)
    assert len(operations) > 40


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(4))
@SCRIPTS
def test_a_power_cut_at_any_operation_loses_nothing_promised(
    tmp_path: Path, seed: int, script: Callable[[Log, Promise], None]
) -> None:
    """Every second of each kind with each seed, so that each is cut with two of the four."""
    operations = operations_of(tmp_path / "whole", script)
    for number in [*some_of_each_kind(operations, seed // 2, 2), len(operations)]:
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, number)
        promise = run(root / "v" / "q", filesystem, script)
        filesystem.power_cut(random.Random(f"{seed} {number}") if seed else None)
        check(root / "v" / "q", promise)
    assert len(operations) > 40


@pytest.mark.crash
def test_a_failure_or_power_cut_during_recovery_loses_nothing_either(tmp_path: Path) -> None:
    number = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        first = FaultyFileSystem(root)
        promise = run(root / "v" / "q", first, append_all)
        segment = max((root / "v" / "q").glob("*.log"))
        segment.write_bytes(segment.read_bytes() + b"torn tail")
        first.power_cut(random.Random(7))
        second = FaultyFileSystem(root, number)
        run(root / "v" / "q", second, lambda log, _: append(log, log.log_end_offset, 40))
        second.power_cut(random.Random(8))
        promise.written = 40
        check(root / "v" / "q", promise)
        if len(second.operations) <= number:
            break
        number += 1
    assert number > 5


@pytest.mark.crash
def test_no_flipped_bit_ever_gives_a_wrong_message(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "whole", segment_bytes=400)
    append(log, 0, 9)
    log.close()
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    for name, content in files.items():
        for position in range(0, len(content), 3):
            directory = tmp_path / f"{name}-{position}"
            directory.mkdir()
            for other, data in files.items():
                (directory / other).write_bytes(data)
            flipped = bytearray(content)
            flipped[position] ^= 1 << position % 8
            (directory / name).write_bytes(flipped)
            log, report = open_log(directory, segment_bytes=400)
            found = read_all(log)
            assert found.items() <= expected(0, 9).items()
            assert log.log_end_offset == 9
            if len(found) < 9:
                assert not report.is_clean or log.damaged
            log.close()


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_during_retention_is_no_loss_to_who_knows_the_floor(
    tmp_path: Path, seed: int
) -> None:
    for number in range(12):
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root)
        log, _ = open_log(root / "q", filesystem, SEGMENT_BYTES)
        append(log, 0, 60)
        filesystem.fail_at = len(filesystem.operations) + number
        with suppress(LogFailedError):
            log.remove_settled(50)
        filesystem.power_cut(random.Random(f"{seed} {number}"))
        log, report = open_log(root / "q", segment_bytes=SEGMENT_BYTES, settled_floor=50)
        assert report.lost == []
        assert read_all(log).items() >= expected(50, 60).items()
        log.remove_settled(50)
        assert log.log_start_offset > 40
