"""Recovery where something beside the chunks is missing, wrong or foreign."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from appendlog import Append, Log, LogFailedError, LogIdentity, LogOptions
from appendlog.files.filesystem import FileSystem
from appendlog.layout.chunk import encode_control
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    END_SLOT_BYTES,
    END_SUMS_BYTES,
    FOOTER_BYTES,
    FOOTER_MAGIC,
    FOOTER_TRAILER,
    REMOVED_RANGE,
)
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.layout.summary import SegmentSummary, encode_footer
from appendlog.segments.durable_end import (
    DurableEnd,
    decode_slot,
    encode_slot,
    read_durable_end,
)
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


def drop_end(path: Path) -> None:
    path.unlink()


def tear_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:70])


def zero_end(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def foreign_end(path: Path) -> None:
    end = read_durable_end(FileSystem(), path.parent, IDENTITY.incarnation)
    assert end is not None
    path.write_bytes(encode_slot(end, uuid4()).ljust(512) + encode_slot(end, uuid4()))


@pytest.mark.parametrize("spoil", [drop_end, tear_end, zero_end, foreign_end])
def test_a_bad_end_file_is_replaced_by_scanning(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    a_log(tmp_path, 9)
    spoil(tmp_path / "end")
    log, report = open_log(tmp_path)
    assert report.is_clean
    assert log.recovery_point == 9
    append(log, 9, 12)
    end = read_durable_end(FileSystem(), tmp_path, IDENTITY.incarnation)
    assert end is not None
    assert end.recovery_point == 12


def test_one_torn_slot_leaves_the_other(tmp_path: Path) -> None:
    a_log(tmp_path, 9)
    end = read_durable_end(FileSystem(), tmp_path, IDENTITY.incarnation)
    assert end is not None
    data = bytearray((tmp_path / "end").read_bytes())
    at = 512 * (end.generation & 1)
    data[at + 20] ^= 1
    (tmp_path / "end").write_bytes(data)
    older = read_durable_end(FileSystem(), tmp_path, IDENTITY.incarnation)
    assert older is not None
    assert (older.generation, older.recovery_point) == (end.generation - 1, 6)
    assert len(data) == 512 + END_SLOT_BYTES + END_SUMS_BYTES


def test_a_slot_with_any_wrong_byte_says_nothing() -> None:
    incarnation = IDENTITY.incarnation
    slot = encode_slot(DurableEnd(3, 9, 7, 5_000), incarnation)
    assert decode_slot(slot, incarnation) == DurableEnd(3, 9, 7, 5_000)
    for at in range(END_SLOT_BYTES):
        spoiled = bytearray(slot)
        spoiled[at] ^= 1
        assert decode_slot(bytes(spoiled), incarnation) is None, f"byte {at}"


@pytest.mark.parametrize("content", [None, b"", b"x" * 31, bytes(160), b"AQLI" + b"\xff" * 44])
def test_a_missing_or_wrong_index_costs_only_time(tmp_path: Path, content: bytes | None) -> None:
    a_log(tmp_path, 60, segment_bytes=3_000)
    for path in tmp_path.glob("*.index"):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:16] + content if len(content) > 40 else content)
    log, report = open_log(tmp_path, segment_bytes=3_000)
    assert report.is_clean
    for start in range(0, 60, 7):
        assert read_all(log, start) == expected(start, 60)


def test_chunks_of_another_incarnation_are_not_this_logs(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    content = segment.read_bytes()
    other = LogIdentity("/", "orders", uuid4())
    log, report = Log.open(tmp_path, other)
    assert log.log_end_offset == 0
    assert not report.is_clean
    assert report.foreign_files[0].startswith(
        f"{segment.name}: its header says queue 'orders' in '/'"
    )
    # Its name is the one that the first segment would have.
    log.append(Append([chunk(0, 3, salt=other.salt)], 3, sync=True))
    assert read_all(log) == expected(0, 3)
    log.close()
    log, report = Log.open(tmp_path, other)
    assert (report.lost, len(report.foreign_files), log.log_end_offset) == ([], 1, 3)
    assert read_all(log) == expected(0, 3)
    log.close()
    assert segment.read_bytes() == content


def test_a_body_that_holds_an_old_piece_of_the_log_is_not_taken_for_it(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    copy = segment.read_bytes()
    log, _ = open_log(tmp_path)
    body = message(0) + copy
    from appendlog import encode_chunk
    from appendlog.layout.message import encode_message

    stored = encode_message(1, b"", b"q", b"\0\0", body)
    log.append(Append([encode_chunk([stored], 9, None, 1_009, None, SALT)], 10, sync=True))
    log.append(Append([chunk(10, 12)], 12, sync=True))
    log.close()
    flip(segment, segment.stat().st_size - len(chunk(10, 12)) - 10)
    log, report = open_log(tmp_path)
    assert report.lost == [(9, 10)]
    assert read_all(log) == expected(0, 9) | expected(10, 12)


def test_an_unknown_file_is_left_alone(tmp_path: Path) -> None:
    a_log(tmp_path, 9)
    (tmp_path / "notes.txt").write_text("hello")
    log, report = open_log(tmp_path)
    assert report.is_clean
    assert (tmp_path / "notes.txt").exists()
    assert log.log_end_offset == 9


def test_the_newest_valid_generation_of_a_segment_wins(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    header = encode_segment_header(SegmentHeader(IDENTITY, 0, 0, generation=2))
    stem = segment.stem
    footer = encode_footer(SegmentSummary(0, 9, 0), SALT, [(3, 9)])
    (tmp_path / f"{stem}-0000000002.log").write_bytes(header + chunk(0, 3) + footer)
    (tmp_path / f"{stem}-0000000003.log").write_bytes(header[:40])
    third = encode_segment_header(SegmentHeader(IDENTITY, 0, 0, generation=4))
    (tmp_path / f"{stem}-0000000004.log").write_bytes(third + chunk(0, 3) + footer[:-1])
    (tmp_path / f"{stem}-0000000005.compacting").write_bytes(third)
    (tmp_path / "end").unlink()
    log, _ = open_log(tmp_path)
    assert read_all(log) == expected(0, 3)
    assert log.log_end_offset == 9
    assert [path.name for path in tmp_path.glob("*.log")] == [f"{stem}-0000000002.log"]
    assert list(tmp_path.glob("*.compacting")) == []


def test_a_failing_disk_during_recovery_fails_this_log_only(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    segment.write_bytes(segment.read_bytes() + b"torn")
    with pytest.raises(LogFailedError):
        open_log(tmp_path, FaultyFileSystem(tmp_path, fail_at=0))
    log, report = open_log(tmp_path)
    assert report.cut_bytes == 4
    assert read_all(log) == expected(0, 9)


def test_options_are_bounded() -> None:
    with pytest.raises(ValueError, match="segment_bytes"):
        LogOptions(segment_bytes=0)
    with pytest.raises(ValueError, match="index_interval_bytes"):
        LogOptions(index_interval_bytes=0)


def test_a_cut_is_synced_before_anything_is_appended(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 9)
    segment.write_bytes(segment.read_bytes() + b"torn")
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path, filesystem)
    append(log, 9, 12)
    kept = ["create", "pwritev", "fsync", "sync_directory"]
    assert filesystem.operations == [*kept, "truncate", "fsync", "pwritev", "pwrite"]


def test_damage_before_the_offset_asked_for_costs_nothing_behind_it(tmp_path: Path) -> None:
    (segment,) = a_log(tmp_path, 12)
    flip(segment, HEADER_BYTES + CHUNK_BYTES + 120)
    for path in tmp_path.glob("*.index"):
        path.unlink()
    left = expected(0, 3) | expected(6, 12)
    for start in range(12):
        options = LogOptions(index_interval_bytes=1 << 20)
        log, _ = Log.open(tmp_path, IDENTITY, options)
        found = read_all(log, start)
        assert found == {offset: left[offset] for offset in left if offset >= start}
        log.close()


def test_a_footer_is_not_believed_while_no_later_segment_proves_it_was_synced(
    tmp_path: Path,
) -> None:
    *_, sealed, last = a_log(tmp_path, 30, segment_bytes=700)
    base = int(sealed.stem)
    last.unlink()
    (tmp_path / "end").unlink()
    data = bytearray(sealed.read_bytes())
    data[HEADER_BYTES : HEADER_BYTES + CHUNK_BYTES] = bytes(CHUNK_BYTES)
    sealed.write_bytes(data)
    _, report = open_log(tmp_path, segment_bytes=700)
    assert report.lost == [(base, base + 3)]
    assert report.damaged_chunks == 1


def test_a_footer_that_lists_removed_ranges_is_read(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    summary = open_log(tmp_path, segment_bytes=700)[0].summaries()[0]
    plain = encode_footer(summary, SALT)
    payload = bytearray(plain[CHUNK_HEADER_BYTES:-8])
    payload[FOOTER_BYTES - 8] = 2
    payload += REMOVED_RANGE.pack(1, 2) + REMOVED_RANGE.pack(4, 5)
    payload += FOOTER_TRAILER.pack(len(plain) + 32, FOOTER_MAGIC)
    footer = encode_control(bytes(payload), summary.end_offset, summary.last_timestamp_ns, SALT)
    paths[0].write_bytes(paths[0].read_bytes()[: -len(plain)] + footer)
    log, report = open_log(tmp_path, segment_bytes=700)
    assert report.is_clean
    assert log.summaries()[0] == summary
    assert read_all(log) == expected(0, 30)


def test_a_sealed_segment_shorter_than_a_footer_is_damage(tmp_path: Path) -> None:
    paths = a_log(tmp_path, 30, segment_bytes=700)
    cut(paths[1], 20)
    log, report = open_log(tmp_path, segment_bytes=700)
    assert report.lost == [(int(paths[1].stem), int(paths[2].stem))]
    assert report.damaged_chunks > 0
    assert log.log_end_offset == 30
