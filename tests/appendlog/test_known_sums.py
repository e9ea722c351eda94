"""Opening behind the durable end: the same log as by a scan, for a fraction of the reading."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog import (
    Append,
    Descriptors,
    FileSystem,
    Log,
    RecoveryReport,
    SegmentSummary,
    encode_chunk,
)
from appendlog.layout.format import END_SLOT_POSITIONS
from appendlog.layout.message import PERSISTENT
from appendlog.recovery.known_sums import VERIFIED_BYTES
from appendlog.segments.durable_end import DurableEndFile, read_durable_end
from appendlog.segments.segment import SegmentName
from tests.appendlog.builders import (
    HEADER_BYTES,
    IDENTITY,
    SALT,
    append,
    chunk,
    cut,
    expected,
    flip,
    message,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem


def a_large_log(directory: Path, size_bytes: int = 4 * VERIFIED_BYTES) -> int:
    """Write one segment of about that size, close it, and return its end offset."""
    log, _ = open_log(directory)
    start = 0
    while log.size_bytes < size_bytes:
        log.append(Append([chunk(start, start + 100)], start + 100, sync=False))
        start += 100
    log.close()
    return start


def test_a_slot_without_sums_does_not_get_those_of_a_torn_one(tmp_path: Path) -> None:
    """The torn one's generation is used again, and its sums were believed."""
    incarnation = IDENTITY.incarnation
    path, descriptors = tmp_path / "end", Descriptors(1)
    end = DurableEndFile(tmp_path, incarnation, 0)
    for offset in range(1, 4):
        end.write(
            FileSystem(), descriptors, offset, SegmentName(0, 0), 100, SegmentSummary(0, offset, 0)
        )
    descriptors.close()
    flip(path, END_SLOT_POSITIONS[3 & 1] + 20)
    found = read_durable_end(FileSystem(), tmp_path, incarnation)
    assert found is not None
    assert found.generation == 2
    assert found.summary is not None
    again = DurableEndFile(tmp_path, incarnation, found.generation)
    again.write(FileSystem(), descriptors, 9, SegmentName(0, 0), 900)
    descriptors.close()
    found = read_durable_end(FileSystem(), tmp_path, incarnation)
    assert found is not None
    assert (found.generation, found.recovery_point) == (3, 9)
    assert found.summary is None


def without_end(directory: Path) -> tuple[Log, RecoveryReport]:
    """Open a log by a scan."""
    (directory / "end").unlink()
    return open_log(directory)


def index_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.index")))


def test_a_large_segment_is_not_read_again(tmp_path: Path) -> None:
    end = a_large_log(tmp_path, 10 * VERIFIED_BYTES)
    written = index_of(tmp_path)
    filesystem = FaultyFileSystem(tmp_path)
    log, report = open_log(tmp_path, filesystem)
    assert (log.log_end_offset, report.record_count, report.scanned_bytes) == (end, end, 0)
    assert filesystem.read_bytes < 2 * VERIFIED_BYTES
    assert filesystem.operations == []
    summaries = log.summaries()
    assert read_all(log, end - 150) == expected(end - 150, end)
    log.close()
    assert index_of(tmp_path) == written
    scanned, report = without_end(tmp_path)
    assert report.scanned_bytes > 9 * VERIFIED_BYTES
    assert scanned.summaries() == summaries


def test_what_lies_behind_the_durable_end_is_scanned(tmp_path: Path) -> None:
    end = a_large_log(tmp_path)
    log, _ = open_log(tmp_path)
    log.append(Append([chunk(end, end + 50)], end + 50, sync=False))
    log.append(Append([chunk(end + 50, end + 90)], end + 90, sync=False))
    (segment,) = tmp_path.glob("*.log")
    cut(segment, segment.stat().st_size - 1)
    log, report = open_log(tmp_path)
    assert 0 < report.scanned_bytes < VERIFIED_BYTES
    assert (report.lost, log.log_end_offset, log.recovery_point) == ([], end + 50, end + 50)
    assert report.cut_bytes > 0
    append(log, end + 50, end + 60)
    assert read_all(log) == expected(0, end + 60)


@given(st.randoms(use_true_random=False))
def test_it_is_the_log_that_a_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log, _ = open_log(directory, segment_bytes=chance.choice([5_000, 1 << 20]))
    for _ in range(chance.randint(1, 12)):
        start = log.log_end_offset
        stop = start + chance.randint(1, 40)
        flags = chance.choice([0, PERSISTENT])
        messages = [
            message(number, chance.choice([0, 900]), flags) for number in range(start, stop)
        ]
        data = encode_chunk(messages, start, None, 1_000 + start, None, SALT)
        gap = chance.choice([0, 0, 0, 7])
        log.append(Append([data], stop + gap, sync=chance.random() < 0.5))
        if chance.random() < 0.1:
            log.roll()
    if chance.random() < 0.5:
        log.close()
    opened, _ = open_log(directory)
    found = _facts(opened)
    assert found == (log.log_end_offset, log.summaries(), read_all(log))
    opened.close()
    stored = index_of(directory)
    for path in directory.glob("*.index"):
        path.unlink()
    scanned, _ = without_end(directory)
    assert _facts(scanned) == found
    scanned.close()
    assert index_of(directory) == stored


def _facts(log: Log) -> tuple[int, list[SegmentSummary], dict[int, bytes]]:
    return log.log_end_offset, log.summaries(), read_all(log)


@pytest.mark.parametrize("damage", ["last bytes", "sums", "index", "length", "header"])
def test_sums_that_the_segment_contradicts_are_not_believed(tmp_path: Path, damage: str) -> None:
    end = a_large_log(tmp_path)
    (segment,) = tmp_path.glob("*.log")
    size = segment.stat().st_size
    if damage == "last bytes":
        flip(segment, size - 2_000)
    elif damage == "sums":
        for at in (64 + 40, 512 + 64 + 40):
            if len((tmp_path / "end").read_bytes()) > at:
                flip(tmp_path / "end", at)
    elif damage == "index":
        (index,) = tmp_path.glob("*.index")
        index.write_bytes(index.read_bytes()[:16] + bytes(160))
    elif damage == "length":
        cut(segment, size - 2_000)
    else:
        flip(segment, 10)
    log, report = open_log(tmp_path)
    assert report.scanned_bytes > 3 * VERIFIED_BYTES
    assert report.is_clean is (damage in ("sums", "index"))
    lost = {offset for first, stop in report.lost for offset in range(first, stop)}
    assert log.log_end_offset == end
    assert len(lost) == (100 if damage in ("last bytes", "length") else 0)
    assert set(read_all(log)) == set(range(end)) - lost


def test_without_an_index_that_it_had_a_segment_is_scanned(tmp_path: Path) -> None:
    end = a_large_log(tmp_path, 15 * VERIFIED_BYTES)
    written = index_of(tmp_path)
    (index,) = tmp_path.glob("*.index")
    index.unlink()
    log, report = open_log(tmp_path)
    assert report.scanned_bytes > 14 * VERIFIED_BYTES
    assert read_all(log) == expected(0, end)
    log.close()
    assert index_of(tmp_path) == written


def test_damage_far_below_the_durable_end_is_met_by_reads_and_reported_by_a_scan(
    tmp_path: Path,
) -> None:
    end = a_large_log(tmp_path)
    (segment,) = tmp_path.glob("*.log")
    flip(segment, HEADER_BYTES + 200)
    log, report = open_log(tmp_path)
    assert report.is_clean
    assert read_all(log) == expected(100, end)
    assert len(log.damaged) == 1
    _, report = without_end(tmp_path)
    assert report.lost == [(0, 100)]
    # It is known to be damaged now, so that every start tells of it.
    assert open_log(tmp_path)[1].lost == [(0, 100)]


def test_a_sealed_segment_at_the_end_is_recognised_behind_the_durable_end(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 6)
    log.roll()
    (tmp_path / "00000000000000000006.log").unlink()
    for _ in range(2):
        log, report = open_log(tmp_path)
        assert (report.lost, log.log_end_offset) == ([], 6)
    append(log, 6, 9)
    assert read_all(log) == expected(0, 9)
    assert len(list(tmp_path.glob("*.log"))) == 2
