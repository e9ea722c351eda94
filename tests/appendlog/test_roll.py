"""Sealing a segment: for its size, for its age, and because nobody needs what is in it."""

from pathlib import Path

import pytest

from appendlog import Append, Log, LogFailedError, LogOptions, LogReader
from appendlog.files.descriptors import Descriptors
from appendlog.layout.format import U32_MAX
from appendlog.log import EMPTIED_BYTES
from tests.appendlog.builders import (
    IDENTITY,
    OPENED,
    a_log,
    append,
    chunk,
    expected,
    message,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem

SECOND_NS = 1_000_000_000
START_NS = 5 * SECOND_NS


def aged_log(directory: Path, age_seconds: float) -> Log:
    options = LogOptions(segment_age_seconds=age_seconds, descriptors=Descriptors(4))
    OPENED.append(options.descriptors)
    return Log.open(directory, IDENTITY, options)[0]


def segments_of(directory: Path) -> list[int]:
    return [int(path.stem) for path in sorted(directory.glob("*.log"))]


def append_at(log: Log, seconds: float) -> None:
    start = log.log_end_offset
    log.append(
        Append([chunk(start, start + 1, START_NS + int(seconds * SECOND_NS))], start + 1, sync=True)
    )


def test_a_segment_is_sealed_before_a_chunk_that_is_too_young_for_it(tmp_path: Path) -> None:
    log = aged_log(tmp_path, 10)
    for seconds in (0, 9, 11, 20, 22):
        append_at(log, seconds)
    assert segments_of(tmp_path) == [0, 2, 4]


def test_by_default_no_segment_is_sealed_for_its_age(tmp_path: Path) -> None:
    log = aged_log(tmp_path, 0)
    append_at(log, 0)
    append_at(log, 1e9)
    assert segments_of(tmp_path) == [0]
    assert not log.is_roll_due(START_NS + 10**18, 0)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_an_old_segment_of_an_idle_log_is_sealed_and_its_end_offset_kept(
    tmp_path: Path, is_reopened: bool
) -> None:
    log = aged_log(tmp_path, 10)
    append_at(log, 0)
    append_at(log, 1)
    if is_reopened:
        log.close()
        log = aged_log(tmp_path, 10)
    assert not log.is_roll_due(START_NS + 9 * SECOND_NS, 0)
    assert log.is_roll_due(START_NS + 11 * SECOND_NS, 0)
    log.roll()
    assert not log.is_roll_due(START_NS + 10**18, 2)
    assert segments_of(tmp_path) == [0, 2]
    assert read_all(log) == expected(0, 2)
    log.remove_settled(2)
    assert (segments_of(tmp_path), log.log_start_offset, log.log_end_offset) == ([2], 2, 2)
    log.close()
    log = aged_log(tmp_path, 10)
    assert (log.log_end_offset, log.recovery_point) == (2, 2)
    append_at(log, 30)
    assert read_all(log) == {2: message(2)}
    with LogReader(tmp_path) as reader:
        assert (reader.log_start_offset, reader.log_end_offset) == (2, 3)


def test_an_emptied_log_gives_back_a_large_segment_and_keeps_a_small_one(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=64 << 20)
    append(log, 0, 3)
    assert not log.is_roll_due(0, 3)
    while log.size_bytes < EMPTIED_BYTES:
        start = log.log_end_offset
        log.append(Append([chunk(start, start + 3_000)], start + 3_000, sync=False))
    end = log.log_end_offset
    assert not log.is_roll_due(0, end - 1)
    assert not log.is_roll_due(0, end, keep_since_ns=log.last_timestamp_ns)
    assert log.is_roll_due(0, end, keep_since_ns=log.last_timestamp_ns + 1)
    assert log.is_roll_due(0, end)
    log.roll()
    assert log.recovery_point == end
    assert log.remove_settled(end) >= EMPTIED_BYTES
    assert log.size_bytes < 200
    assert not log.is_roll_due(0, end)


def test_a_small_segment_is_large_where_segments_are_small(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=500)
    append(log, 0, 6)
    assert not log.is_roll_due(0, 6)
    log, _ = open_log(tmp_path, segment_bytes=300)
    assert log.is_roll_due(0, 6)


def test_rolling_an_empty_log_does_nothing(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    log.roll()
    assert segments_of(tmp_path) == []
    append(log, 0, 3)
    log.roll()
    log.roll()
    assert segments_of(tmp_path) == [0, 3]


def test_rolling_fails_at_every_operation_and_loses_nothing(tmp_path: Path) -> None:
    def rolled(directory: Path, fail_at: int | None) -> tuple[Log, FaultyFileSystem]:
        directory.mkdir()
        a_log(directory, 6)
        filesystem = FaultyFileSystem(directory)
        log, _ = open_log(directory, filesystem)
        begun = len(filesystem.operations)
        filesystem.fail_at = None if fail_at is None else begun + fail_at
        if fail_at is None:
            log.roll()
        else:
            with pytest.raises(LogFailedError):
                log.roll()
        filesystem.operations[:] = filesystem.operations[begun:]
        return log, filesystem

    _, filesystem = rolled(tmp_path / "all", None)
    needed = [name for name in filesystem.operations if name not in ("create", "unlink")]
    assert {"fdatasync", "sync_directory", "pwrite"} <= set(needed)
    failures = 0
    for number in range(len(filesystem.operations)):
        directory = tmp_path / str(number)
        try:
            rolled(directory, number)
        except pytest.fail.Exception:
            continue  # the index only: that costs a rebuild
        failures += 1
        log, report = open_log(directory)
        assert report.lost == []
        append(log, 6, 9)
        assert read_all(log) == expected(0, 9)
    assert failures >= 4


def test_a_segment_is_sealed_before_an_offset_that_does_not_fit_into_32_bits(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path)
    for start in (5, U32_MAX - 1, U32_MAX, U32_MAX + 1):
        append(log, start, start + 1)
    assert segments_of(tmp_path) == [0, U32_MAX]
    assert list(read_all(log)) == [5, U32_MAX - 1, U32_MAX, U32_MAX + 1]
