"""What a start finds and does: the table of docs/log-format.md, section 9, row by row."""

from pathlib import Path

import pytest

from appendlog import Append, Log, UnsupportedFormatError, encode_chunk
from appendlog.files.filesystem import FileSystem
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.layout.summary import SegmentSummary
from appendlog.segments.durable_end import read_durable_end
from appendlog.segments.scan import WINDOW_BYTES
from tests.appendlog.builders import (
    CHUNK_BYTES,
    HEADER_BYTES,
    IDENTITY,
    SALT,
    a_log,
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


@pytest.mark.parametrize("tail", [b"A", b"AQLC", chunk(9, 12)[:-1], bytes(500), b"garbage" * 30])
def test_a_torn_tail_is_cut_kept_and_overwritten(tmp_path: Path, tail: bytes) -> None:
    (segment,) = a_log(tmp_path, 9)
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() + tail)
    log, report = open_log(tmp_path)
    assert (report.cut_bytes, report.damaged_chunks, report.lost) == (len(tail), 0, [])
    assert segment.stat().st_size == size
    assert (tmp_path / f"{segment.name}.{size}.torn").read_bytes() == tail
    append(log, 9, 15)
    assert read_all(log) == expected(0, 15)
    log.close()
    assert open_log(tmp_path)[1].is_clean


@pytest.mark.parametrize("keep", range(0, CHUNK_BYTES, 7))
def test_a_half_written_chunk_beyond_the_durable_end_is_torn(tmp_path: Path, keep: int) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 6)
    log.append(Append([chunk(6, 9)], 9, sync=False))
    (segment,) = tmp_path.glob("*.log")
    cut(segment, HEADER_BYTES + 2 * CHUNK_BYTES + keep)
    log, report = open_log(tmp_path)
    assert (report.cut_bytes, report.lost) == (keep, [])
    assert log.log_end_offset == log.recovery_point == 6
    assert read_all(log) == expected(0, 6)


def test_whole_chunks_behind_the_durable_end_count_and_are_synced(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 6)
    log.append(Append([chunk(6, 9)], 9, sync=False))
    filesystem = FaultyFileSystem(tmp_path)
    log, report = open_log(tmp_path, filesystem)
    assert report.is_clean
    assert log.recovery_point == 9
    assert {"fdatasync", "sync_directory"} <= set(filesystem.operations)
    end = read_durable_end(FileSystem(), tmp_path, IDENTITY.incarnation)
    assert end is not None
    assert end.recovery_point == 9


def test_damage_in_the_middle_is_skipped_copied_counted_and_left_in_place(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 12)
    before = segment.stat().st_size
    start = HEADER_BYTES + CHUNK_BYTES
    flip(segment, start + 120)
    damaged = segment.read_bytes()[start : start + CHUNK_BYTES]
    for _ in range(2):
        log, report = open_log(tmp_path)
        assert (report.damaged_chunks, report.damaged_bytes) == (1, CHUNK_BYTES)
        assert report.lost == [(3, 6)]
        assert report.cut_bytes == 0
        assert segment.stat().st_size == before
        copy = tmp_path / f"{segment.name}.{start}-{start + CHUNK_BYTES}.damaged"
        assert copy.read_bytes() == damaged
        assert read_all(log) == expected(0, 3) | expected(6, 12)
        assert log.read(0, 1 << 20, 100).lost == [(3, 6)]
        assert len(log.damaged) == 1
        log.close()
    log, _ = open_log(tmp_path)
    append(log, 12, 15)
    assert read_all(log) == expected(0, 3) | expected(6, 15)


def test_damage_at_the_durable_end_is_never_cut_and_its_offsets_never_reused(
    tmp_path: Path,
) -> None:
    (segment,) = a_log(tmp_path, 9)
    size = segment.stat().st_size
    flip(segment, size - 5)
    log, report = open_log(tmp_path)
    assert (report.damaged_chunks, report.cut_bytes, report.lost) == (1, 0, [(6, 9)])
    assert log.log_end_offset == 9
    assert segment.stat().st_size > size
    append(log, 9, 12)
    log.close()
    (tmp_path / "end").unlink()
    log, report = open_log(tmp_path)
    assert (report.lost, report.cut_bytes) == ([(6, 9)] * 2, 0)
    assert read_all(log) == expected(0, 6) | expected(9, 12)


def test_lost_offsets_stay_lost_when_the_end_file_vanishes_before_the_next_append(
    tmp_path: Path,
) -> None:
    (segment,) = a_log(tmp_path, 9)
    flip(segment, segment.stat().st_size - 5)
    open_log(tmp_path)
    (tmp_path / "end").unlink()
    log, _ = open_log(tmp_path)
    assert log.log_end_offset == 9


def test_the_same_damage_without_a_durable_end_is_a_torn_tail(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    flip(segment, segment.stat().st_size - 5)
    (tmp_path / "end").unlink()
    log, report = open_log(tmp_path)
    assert (report.cut_bytes, report.damaged_chunks) == (CHUNK_BYTES, 0)
    assert log.log_end_offset == 6


def test_a_file_shorter_than_the_durable_end_is_damage(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    cut(segment, HEADER_BYTES + CHUNK_BYTES)
    log, report = open_log(tmp_path)
    assert report.damaged_chunks == 1
    assert report.lost == [(3, 9)]
    assert log.log_end_offset == 9
    append(log, 9, 12)
    assert read_all(log) == expected(0, 3) | expected(9, 12)


def test_a_missing_last_segment_is_damage(tmp_path: Path) -> None:
    *_, last = a_log(tmp_path, 30, segment_bytes=700)
    base = int(last.stem)
    last.unlink()
    log, report = open_log(tmp_path, segment_bytes=700)
    assert report.lost == [(base, 30)]
    append(log, 30, 33)
    log.close()
    log, _ = open_log(tmp_path, segment_bytes=700)
    assert read_all(log) == expected(0, base) | expected(30, 33)


def test_all_segments_missing_is_damage_too(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    segment.unlink()
    log, report = open_log(tmp_path)
    assert report.lost == [(0, 9)]
    append(log, 9, 12)
    assert read_all(log) == expected(9, 12)


@pytest.mark.parametrize("has_end", [True, False])
@pytest.mark.parametrize("count", [0, 12])
def test_what_others_know_to_have_been_there_is_lost_once_and_never_used_again(
    tmp_path: Path, has_end: bool, count: int
) -> None:
    """Segments and `end` may agree and be too old both: somebody put an earlier copy there."""
    if count:
        a_log(tmp_path, count)
    if not has_end:
        (tmp_path / "end").unlink(missing_ok=True)
    log, report = Log.open(tmp_path, IDENTITY, known_end=20)
    assert (report.lost, report.is_damaged) == ([(count, 20)], True)
    assert log.log_end_offset == log.recovery_point == 20
    log.close()
    log, report = Log.open(tmp_path, IDENTITY, known_end=20)
    assert (report.lost, report.noted, report.is_clean) == ([(count, 20)], [(count, 20)], True)
    append(log, 20, 23)
    assert read_all(log) == expected(0, count) | expected(20, 23)
    log.close()


def test_a_missing_middle_segment_is_reported_as_lost(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    start, end = int(paths[1].stem), int(paths[2].stem)
    paths[1].unlink()
    log, report = open_log(tmp_path, segment_bytes=700)
    assert report.lost == [(start, end)]
    assert read_all(log) == expected(0, start) | expected(end, 30)
    assert log.read(start, 1 << 20, 1).lost == [(start, end)]


@pytest.mark.parametrize("size", [0, 1, 30, HEADER_BYTES - 1])
def test_a_segment_with_half_a_header_is_removed(tmp_path: Path, size: int) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    header = encode_segment_header(SegmentHeader(IDENTITY, 30, 0))
    torn = tmp_path / f"{30:020d}.log"
    log, _ = open_log(tmp_path, segment_bytes=700)
    log.append(Append([chunk(30, 33)], 33, sync=False))
    log, _ = open_log(tmp_path, segment_bytes=1)
    log.append(Append([chunk(33, 36)], 36, sync=True))
    torn = max(tmp_path.glob("*.log"))
    (tmp_path / "end").unlink()
    torn.write_bytes(header[:size])
    log, report = open_log(tmp_path, segment_bytes=700)
    assert (report.cut_bytes, report.damaged_chunks) == (size, 0)
    assert not torn.exists()
    append(log, 33, 36)
    assert read_all(log) == expected(0, 36)
    assert len(paths) > 2


def test_a_damaged_segment_header_costs_no_chunk(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    flip(segment, 20)
    log, report = open_log(tmp_path)
    assert (report.damaged_chunks, report.damaged_bytes) == (1, HEADER_BYTES)
    assert read_all(log) == expected(0, 9)
    append(log, 9, 12)
    assert read_all(log) == expected(0, 12)


def test_a_header_of_another_version_is_refused(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    data = bytearray(segment.read_bytes())
    data[12] = 7
    from crc32c import crc32c

    data[4:8] = crc32c(data[8:HEADER_BYTES]).to_bytes(4, "little")
    segment.write_bytes(data)
    with pytest.raises(UnsupportedFormatError) as caught:
        open_log(tmp_path)
    assert (caught.value.found, caught.value.supported) == (7, 1)


def test_a_sealed_segment_without_its_footer_is_scanned_and_reported(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    cut(paths[1], paths[1].stat().st_size - 192)
    log, report = open_log(tmp_path, segment_bytes=700)
    assert (report.damaged_chunks, report.cut_bytes, report.lost) == (1, 0, [])
    assert read_all(log) == expected(0, 30)


def test_a_sealed_segment_with_a_torn_end_loses_only_that(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    start, end = int(paths[1].stem), int(paths[2].stem)
    size = HEADER_BYTES + CHUNK_BYTES + 10
    cut(paths[1], size)
    log, report = open_log(tmp_path, segment_bytes=700)
    assert paths[1].stat().st_size == size
    assert (report.damaged_chunks, report.cut_bytes) == (1, 0)
    assert report.lost == [(start + 3, end)]
    assert read_all(log) == expected(0, start + 3) | expected(end, 30)


def test_a_sealed_last_segment_is_followed_by_a_new_one(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    base = int(paths[-1].stem)
    paths[-1].unlink()
    (tmp_path / "end").unlink()
    log, report = open_log(tmp_path, segment_bytes=700)
    assert report.is_clean
    append(log, base, base + 3)
    assert paths[-1].exists()
    assert read_all(log) == expected(0, base + 3)


def test_bytes_behind_a_footer_are_torn(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    base = int(paths[-1].stem)
    paths[-1].unlink()
    (tmp_path / "end").unlink()
    size = paths[-2].stat().st_size
    paths[-2].write_bytes(paths[-2].read_bytes() + b"xyz")
    log, report = open_log(tmp_path, segment_bytes=700)
    assert report.cut_bytes == 3
    assert paths[-2].stat().st_size == size
    append(log, base, base + 3)
    assert read_all(log) == expected(0, base + 3)


@pytest.mark.interpreted("names of all slots")
def test_chunks_that_pass_the_end_of_a_window_are_all_found(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, segment_bytes=1 << 23)
    large = [message(number, body_bytes=WINDOW_BYTES * 2 // 5) for number in range(6)]
    for offset, each in enumerate(large):
        log.append(
            Append([encode_chunk([each], offset, None, 1_000, None, SALT)], offset + 1, sync=True)
        )
    log.append(Append([chunk(6, 9)], 9, sync=True))
    for side_file in (*tmp_path.glob("*.index"), tmp_path / "end"):
        side_file.unlink(missing_ok=True)
    found, report = open_log(tmp_path, segment_bytes=1 << 23)
    assert (report.lost, report.damaged_chunks, report.cut_bytes) == ([], 0, 0)
    assert read_all(found) == dict(enumerate(large)) | expected(6, 9)
    assert found.index_statistics().entries == log.index_statistics().entries
    (before,), (after,) = log.segments, found.segments
    sums = [
        [getattr(each.summary, name) for name in SegmentSummary.__slots__]
        for each in (before, after)
    ]
    assert sums[0] == sums[1]
