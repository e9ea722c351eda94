import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from appendlog import Append, FileSystem, LogFailedError, encode_chunk
from appendlog.layout.large_chunk import LargeChunk
from appendlog.layout.message import HAS_EXPIRATION, PERSISTENT, encode_message
from tests.appendlog.builders import (
    IDENTITY,
    SALT,
    append,
    chunk,
    expected,
    message,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem

LOG_FILE = f"{0:020d}.log"
SECOND_LOG_FILE = f"{9:020d}.log"


def test_nothing_is_on_disk_before_the_first_append(tmp_path: Path) -> None:
    log, report = open_log(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    assert report.is_clean
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)
    assert log.read(0, 100, 10).offsets == []
    log.close()
    assert not (tmp_path / "a").exists()


def test_what_was_appended_is_read_from_every_offset(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=700)
    append(log, 0, 50)
    assert len(log.summaries()) > 5
    for start in range(51):
        assert read_all(log, start) == expected(start, 50)


def test_read_returns_one_record_however_small_the_byte_limit(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q")
    append(log, 0, 10)
    result = log.read(4, 1, 10)
    assert (result.offsets, result.next_offset) == ([4], 5)
    assert result.timestamps_ns == [1_000 + 3]


def test_a_chunk_larger_than_a_segment_and_a_window_is_read_back(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=1000)
    large = message(0, body_bytes=3 << 20)
    log.append(Append([encode_chunk([large], 0, None, 1, None, SALT)], 1, sync=True))
    append(log, 1, 4)
    assert log.read(0, 100, 10).messages == [large]
    assert read_all(log, 1) == expected(1, 4)


def test_reopening_finds_the_same_log_and_reads_footers_only(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=5_000)
    append(log, 0, 500)
    size, summaries = log.size_bytes, log.summaries()
    log.close()
    filesystem = FaultyFileSystem(tmp_path)
    log, report = open_log(tmp_path / "q", filesystem, segment_bytes=5_000)
    assert report.is_clean
    assert report.record_count == 500
    assert report.segment_count == len(summaries)
    assert filesystem.read_bytes < 5_000 + 192 * len(summaries) + 2_000
    assert log.summaries() == summaries
    assert (log.size_bytes, log.log_end_offset, log.recovery_point) == (size, 500, 500)
    assert filesystem.operations == []
    append(log, 500, 510)
    assert read_all(log) == expected(0, 510)


def test_an_append_with_sync_is_two_writing_calls(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    before = len(filesystem.operations)
    append(log, 3, 6)
    assert filesystem.operations[before:] == ["pwritev", "pwrite"]


def test_recovery_point_moves_only_with_a_sync(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 6, sync=False)
    assert (log.recovery_point, log.log_end_offset) == (0, 6)
    append(log, 6, 9, sync=True)
    assert log.recovery_point == 9
    assert "fdatasync" in filesystem.operations
    append(log, 9, 12, sync=False)
    log.append(Append([], 12, sync=True))
    assert log.recovery_point == 12


def test_a_kernel_without_rwf_dsync_gets_fdatasync(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path, has_dsync=False)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    assert "fdatasync" in filesystem.operations
    filesystem.power_cut()
    log, _ = open_log(tmp_path / "q")
    assert read_all(log) == expected(0, 3)


def test_chunks_that_are_not_the_logs_own_are_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    log, _ = open_log(tmp_path / "q")
    append(log, 0, 6)
    size = log.size_bytes
    large_ones = LargeChunk(message(5), 5, 1, SALT), LargeChunk(message(6), 6, 1, SALT ^ 1)
    for bad in (chunk(5, 8), chunk(6, 8, salt=SALT ^ 1), b"AQLC", chunk(6, 8) + b"x", *large_ones):
        with pytest.raises(ValueError, match="chunk"):
            log.append(Append([bad], 100, sync=True))
        with pytest.raises(ValueError, match="chunk"):
            log.append(Append([chunk(6, 9), bad], 100, sync=True))
    with pytest.raises(ValueError, match="end offset"):
        log.append(Append([chunk(6, 9)], 8, sync=True))
    assert log.size_bytes == size
    append(log, 6, 9)
    assert read_all(log) == expected(0, 9)


def test_offsets_that_were_skipped_are_never_given_out_again(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q")
    log.append(Append([chunk(4, 6)], 20, sync=True))
    log.close()
    (tmp_path / "q" / "end").unlink()
    log, report = open_log(tmp_path / "q")
    assert report.is_clean
    assert log.log_end_offset == 20
    assert read_all(log) == expected(4, 6)
    assert log.read(6, 100, 10).next_offset == 20


def test_settled_segments_are_removed_and_an_emptied_log_keeps_its_end(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=600)
    append(log, 0, 30)
    size = log.size_bytes
    bases = [summary.first_offset for summary in log.summaries()]
    freed = log.remove_settled(bases[2] + 1)
    assert freed > 0
    assert log.size_bytes == size - freed
    assert log.log_start_offset == bases[2]
    assert log.read(0, 1 << 20, 1).offsets == [bases[2]]
    log.remove_settled(30)
    log.close()
    log, report = open_log(tmp_path / "q", segment_bytes=600)
    assert report.is_clean
    assert (log.log_start_offset, log.log_end_offset) == (bases[-1], 30)


def test_a_removed_segment_can_still_be_read_by_whoever_was_reading_it(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=600)
    append(log, 0, 30)
    assert log.read(0, 1, 1).offsets == [0]
    log.remove_settled(30)
    assert log.read(1, 1 << 20, 100).offsets == list(range(log.log_start_offset, 30))


def test_transient_ranges_are_found_in_whole_and_mixed_chunks(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=900)
    transient = {2, 3, 7, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 40}
    for first in range(0, 60, 5):
        batch = [
            message(n, flags=0 if n in transient else PERSISTENT) for n in range(first, first + 5)
        ]
        log.append(Append([encode_chunk(batch, first, None, 1, None, SALT)], first + 5, sync=False))
    ranges = log.transient_ranges(3)
    assert {offset for start, end in ranges for offset in range(start, end)} == transient - {2}
    assert ranges == [(3, 4), (7, 8), (20, 30), (40, 41)]
    assert log.transient_ranges(41) == []


def test_a_failed_write_is_final_and_reading_goes_on(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 6)
    filesystem.fail_at = len(filesystem.operations)
    with pytest.raises(LogFailedError) as caught:
        append(log, 6, 9)
    filesystem.fail_at = None
    operations = len(filesystem.operations)
    with pytest.raises(LogFailedError):
        append(log, 6, 9)
    assert len(filesystem.operations) == operations
    assert log.failed is caught.value
    assert (log.log_end_offset, log.recovery_point) == (6, 6)
    assert read_all(log) == expected(0, 6)
    log.close()


def test_delete_removes_the_directory(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "vhost" / "q")
    append(log, 0, 6)
    log.delete()
    assert list((tmp_path / "vhost").iterdir()) == []


def test_open_files_stay_bounded_and_are_closed(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=300)
    append(log, 0, 60)
    assert read_all(log) == expected(0, 60)
    assert filesystem.open_count <= 4
    log.close()
    assert filesystem.open_count == 0


def test_reading_beside_an_appending_thread_sees_a_growing_prefix(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=2_000)
    writer = threading.Thread(target=append, args=(log, 0, 600, False))
    writer.start()
    while writer.is_alive():
        end = log.log_end_offset
        assert len(read_all(log)) >= end
    writer.join()
    assert read_all(log) == expected(0, 600)


def test_a_read_error_is_reported_and_does_not_fail_the_log(tmp_path: Path) -> None:
    class Unreadable(FileSystem):
        fails = False

        def pread(self, descriptor: int, size: int, position: int) -> bytes:
            if self.fails:
                raise OSError(5, "no")
            return super().pread(descriptor, size, position)

    filesystem = Unreadable()
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 6)
    filesystem.fails = True
    with pytest.raises(LogFailedError):
        log.read(0, 100, 10)
    assert log.failed is None
    assert log.identity == IDENTITY


def test_many_sequential_readers_keep_their_places(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q")
    append(log, 0, 300)
    for offset in range(299):
        assert log.read(offset, 1, 1).offsets == [offset]
    assert log.last_timestamp_ns == 1_000 + 297


def test_a_file_that_cannot_be_removed_fails_the_log_only_if_it_is_deleted(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=600)
    append(log, 0, 30)
    filesystem.fail_at = 0
    assert log.remove_settled(30) == 0
    assert log.reclaim.unremoved
    assert log.failed is None
    with pytest.raises(LogFailedError):
        log.delete()
    assert log.failed is not None


def test_a_removal_that_cannot_be_synced_fails_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=600)
    append(log, 0, 30)

    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(filesystem, "sync_directory", refuse)
    with pytest.raises(LogFailedError):
        log.remove_settled(30)
    assert log.failed is not None


def test_transient_ranges_survive_a_damaged_chunk(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q")
    for first in range(0, 15, 5):
        batch = [message(n, flags=n % 2) for n in range(first, first + 5)]
        log.append(Append([encode_chunk(batch, first, None, 1, None, SALT)], first + 5, sync=True))
    (segment,) = (tmp_path / "q").glob("*.log")
    data = bytearray(segment.read_bytes())
    second = bytes(data).index(b"AQLC", bytes(data).index(b"AQLC") + 1)
    data[second] ^= 1
    segment.write_bytes(data)
    found = {offset for start, end in log.transient_ranges(0) for offset in range(start, end)}
    assert found == {0, 2, 4, 10, 12, 14}


def test_the_sums_of_expiring_messages_are_kept_across_a_restart(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path / "q", segment_bytes=400)
    for number in range(6):
        properties = b"\x01\x00\x02%d0" % (number + 1)
        stored = encode_message(PERSISTENT | HAS_EXPIRATION, b"", b"q", properties, b"x")
        log.append(
            Append([encode_chunk([stored], number, None, 1, None, SALT)], number + 1, sync=True)
        )
    log.close()
    log, _ = open_log(tmp_path / "q", segment_bytes=400)
    expiries = [(s.min_expiry_ns, s.max_expiry_ns) for s in log.summaries()]
    assert expiries[0][0] == 10_000_001
    assert expiries[-1][1] == 60_000_001


class Hooked(FileSystem):
    """Calls a hook instead of the next read, and can write short."""

    on_read: Callable[[], None] | None = None
    writes_short = False

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        if self.on_read is not None:
            hook, self.on_read = self.on_read, None
            hook()
            raise FileNotFoundError
        return super().pread(descriptor, size, position)

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        return 0 if self.writes_short else super().pwrite(descriptor, data, position)


def test_a_segment_that_retention_removes_under_a_read_is_passed_over(tmp_path: Path) -> None:
    filesystem = Hooked()
    log, _ = open_log(tmp_path / "q", filesystem, segment_bytes=600)
    append(log, 0, 30)
    filesystem.on_read = lambda: print(log.remove_settled(12))
    assert read_all(log) == expected(log.log_start_offset, 30)
    assert log.log_start_offset > 0


def test_an_end_file_that_is_not_written_whole_fails_the_log(tmp_path: Path) -> None:
    filesystem = Hooked()
    log, _ = open_log(tmp_path / "q", filesystem)
    append(log, 0, 3)
    filesystem.writes_short = True
    with pytest.raises(LogFailedError) as caught:
        append(log, 3, 6)
    assert caught.value.path.name == "end"
    assert log.recovery_point == 3


@pytest.mark.parametrize("has_dsync", [True, False])
def test_a_failure_names_the_file_or_directory_whose_operation_failed(
    tmp_path: Path, has_dsync: bool
) -> None:
    names_of = {
        "mkdir": {LOG_FILE},
        "create": {LOG_FILE, SECOND_LOG_FILE, "end"},
        "pwritev": {LOG_FILE, SECOND_LOG_FILE},
        "pwrite": {"end"},
        "fdatasync": {LOG_FILE, SECOND_LOG_FILE},
        "sync_directory": {"q"},
    }
    failed: set[tuple[str, str]] = set()
    for number in count():
        root = tmp_path / str(number)
        root.mkdir()
        filesystem = FaultyFileSystem(root, number, has_dsync=has_dsync, failing_operations=1)
        log, _ = open_log(root / "q", filesystem)
        with suppress(LogFailedError):
            append(log, 0, 3, sync=False)
            append(log, 3, 9)
            log.roll()
            append(log, 9, 12)
        if log.failed is not None:
            operation, path = filesystem.operations[number], log.failed.path
            assert path.name in names_of[operation]
            assert str(log.failed).startswith(f"{path}: log failed: ")
            failed.add((operation, path.name))
        if number >= len(filesystem.operations):
            break
    assert {operation for operation, _ in failed} >= {"mkdir", "create", "pwritev", "pwrite"}
    assert ("pwritev", SECOND_LOG_FILE) in failed
    assert ("fdatasync", LOG_FILE) in failed
    assert ("sync_directory", "q") in failed


def test_transient_ranges_report_a_read_error(tmp_path: Path) -> None:
    filesystem = Hooked()
    log, _ = open_log(tmp_path / "q", filesystem)
    batch = [message(n, flags=n % 2) for n in range(4)]
    log.append(Append([encode_chunk(batch, 0, None, 1, None, SALT)], 4, sync=True))
    filesystem.on_read = lambda: None
    with pytest.raises(LogFailedError):
        log.transient_ranges(0)
    assert log.failed is None
