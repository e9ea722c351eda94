"""An append that is prepared by one thread and written by another is the same append."""

import errno
import os
import random
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from appendlog import (
    Append,
    Compression,
    FileSystem,
    Log,
    LogFailedError,
    LogOptions,
    LogReader,
    encode_chunk,
)
from appendlog.files.counted_files import CountedFiles
from appendlog.files.descriptors import Descriptors
from appendlog.layout.format import GAP_SKIPPED
from appendlog.layout.large_chunk import LargeChunk
from appendlog.segments import segment_writer
from appendlog.segments.index import INDEX_GROUP_ENTRIES
from appendlog.segments.segment_write import WRITE_BUFFERS_MAX, SegmentWrite
from appendlog.segments.written_pages import STEP_BYTES
from tests.appendlog.builders import (
    IDENTITY,
    OPENED,
    SALT,
    append,
    append_in_parts,
    chunk,
    expected,
    message,
    open_log,
    read_all,
)
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS

TIME_NS: Final = 1_700_000_000_000_000_000


def synced(start: int, end: int) -> Append:
    return Append([chunk(start, end)], end, sync=True)


def prepared(log: Log, request: Append) -> SegmentWrite:
    write = log.prepare(request)
    assert write is not None
    return write


def contents(directory: Path) -> dict[str, bytes]:
    if not directory.exists():
        return {}
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def timed_log(
    directory: Path, segment_bytes: int = 1 << 20, filesystem: FileSystem | None = None
) -> Log:
    options = LogOptions(
        segment_bytes=segment_bytes,
        index_interval_bytes=256,
        descriptors=Descriptors(4),
        time_ns=lambda: TIME_NS,
    )
    OPENED.append(options.descriptors)
    return Log.open(directory, IDENTITY, options, filesystem)[0]


@pytest.mark.parametrize("seed", range(20))
def test_the_files_are_the_same_to_the_octet(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    segment_bytes = choose.choice([3_000, 9_000, 1 << 20])
    whole, parts = (timed_log(tmp_path / name, segment_bytes) for name in ("whole", "parts"))
    end, part_count = 0, 0
    for _ in range(60):
        chunks = []
        for _ in range(choose.randrange(4)):
            begin = end + choose.choice([0, 0, 0, 2])
            end = begin + choose.randrange(1, 5)
            chunks.append(chunk(begin, end, 900 if choose.random() < 0.02 else 1_000))
        end += 3 * (choose.random() < 0.05)
        request = Append(chunks, end, sync=choose.random() < 0.9)
        whole.append(request)
        part_count += append_in_parts(parts, request)
        if choose.random() < 0.02:
            whole.roll()
            parts.roll()
        assert contents(parts.directory) == contents(whole.directory)
        assert parts.log_end_offset == whole.log_end_offset == end
        assert parts.recovery_point == whole.recovery_point
        assert parts.summaries() == whole.summaries()
        assert read_all(parts) == read_all(whole)
    assert part_count > 1


def test_before_it_is_completed_nothing_of_the_log_has_changed(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 6)
    files, size = contents(tmp_path), log.size_bytes
    write = prepared(log, synced(6, 9))

    assert contents(tmp_path) == files
    write.write()
    assert (log.log_end_offset, log.recovery_point, log.size_bytes) == (6, 6, size)
    assert log.segments[0].end_offset == 6
    assert read_all(log) == expected(0, 6)
    # Other processes see it at once.
    with LogReader(tmp_path) as reader:
        assert reader.log_end_offset == 9

    log.complete(write)
    assert (log.log_end_offset, log.recovery_point) == (9, 9)
    assert read_all(log) == expected(0, 9)


def beginning(log: Log) -> Append:
    """The first append makes the segment."""
    return synced(0, 3)


def unsynced(log: Log) -> Append:
    append(log, 0, 3)
    return Append([chunk(3, 6)], 6, sync=False)


def after_an_unsynced_one(log: Log) -> Append:
    append(log, 0, 3)
    append(log, 3, 6, sync=False)
    return synced(6, 9)


def without_chunks(log: Log) -> Append:
    append(log, 0, 3)
    return Append([], 3, sync=True)


def with_a_gap(log: Log) -> Append:
    append(log, 0, 3)
    return Append([chunk(3, 6)], 8, sync=True, gap_reason=GAP_SKIPPED)


def of_many_chunks(log: Log) -> Append:
    append(log, 0, 3)
    many = WRITE_BUFFERS_MAX + 1
    return Append([chunk(n, n + 1) for n in range(3, 3 + many)], 3 + many, sync=True)


def for_another_segment(log: Log) -> Append:
    append(log, 0, 3)
    log.change_options(segment_bytes=400, segment_age_seconds=0, compression=Compression.NONE)
    return Append([chunk(3, 6), chunk(6, 9)], 9, sync=True)


def compressed(log: Log) -> Append:
    append(log, 0, 3)
    log.change_options(segment_bytes=9_999, segment_age_seconds=0, compression=Compression.ZSTD)
    return synced(3, 6)


def with_index_entries_to_store(log: Log) -> Append:
    append(log, 0, 3)
    end = 3
    while len(log.segments[0].index.tail) < INDEX_GROUP_ENTRIES:  # type: ignore[union-attr]
        assert append_in_parts(log, synced(end, end + 3))
        end += 3
    return synced(end, end + 3)


def with_closed_files(log: Log) -> Append:
    append(log, 0, 3)
    OPENED[-1].close()
    return synced(3, 6)


@pytest.mark.parametrize(
    "arrange",
    [
        beginning,
        unsynced,
        after_an_unsynced_one,
        without_chunks,
        with_a_gap,
        of_many_chunks,
        for_another_segment,
        compressed,
        with_index_entries_to_store,
        with_closed_files,
    ],
)
def test_an_append_that_is_more_than_a_write_is_not_prepared(
    tmp_path: Path, arrange: Callable[[Log], Append]
) -> None:
    log, _ = open_log(tmp_path)
    request = arrange(log)
    assert log.prepare(request) is None
    # It leaves nothing behind: `append` makes it, and then others can be prepared.
    log.append(request)
    end = request.end_offset
    log.append(synced(end, end + 3))
    log.change_options(segment_bytes=1 << 20, segment_age_seconds=0, compression=Compression.NONE)
    assert append_in_parts(log, synced(end + 3, end + 6))
    found = expected(0, end + 6)
    assert read_all(log).items() <= found.items()
    assert read_all(open_log(tmp_path)[0]) == read_all(log)


def test_large_messages_are_prepared_unless_their_crcs_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    large = [LargeChunk(message(number), number, 1_000 + number, SALT) for number in (3, 6)]
    request = Append([large[0], chunk(4, 6), large[1]], 7, sync=True)
    both_bytes = sum(map(len, large))
    monkeypatch.setattr(segment_writer, "PREPARED_LARGE_BYTES_MAX", both_bytes - 1)
    assert log.prepare(request) is None
    monkeypatch.setattr(segment_writer, "PREPARED_LARGE_BYTES_MAX", both_bytes)
    assert append_in_parts(log, request)
    assert read_all(log) == expected(0, 7)
    assert read_all(open_log(tmp_path)[0]) == expected(0, 7)


def test_what_is_not_a_chunk_of_the_log_is_left_to_append(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    assert log.prepare(Append([b"not a chunk"], 6, sync=True)) is None
    assert log.prepare(synced(0, 3)) is None
    assert append_in_parts(log, synced(3, 6))


def test_a_failed_log_prepares_nothing(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    log.fail(tmp_path, OSError())
    assert log.prepare(synced(3, 6)) is None


def test_nothing_is_prepared_where_writes_cannot_include_their_sync(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path, FaultyFileSystem(tmp_path, has_dsync=False))
    append(log, 0, 3)
    assert log.prepare(synced(3, 6)) is None


def test_a_thread_that_opens_files_makes_nobody_wait(tmp_path: Path) -> None:
    log, _ = open_log(tmp_path)
    append(log, 0, 3)
    descriptors = OPENED[-1]
    write = prepared(log, synced(3, 6))
    is_taken, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with descriptors._lock:
            is_taken.set()
            may_go_on.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_taken.wait()
    # Neither waits: the files are given back by the next who uses the cache.
    write.write()
    log.complete(write)
    assert log.prepare(synced(6, 9)) is None
    may_go_on.set()
    holder.join()
    assert [entry.users for entry in descriptors._open.values()] == [1, 1]
    append(log, 6, 9)
    assert [entry.users for entry in descriptors._open.values()] == [0, 0]
    assert read_all(log) == expected(0, 9)


def test_a_file_that_is_evicted_during_the_write_is_closed_after_it(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    log, _ = open_log(tmp_path, filesystem)
    append(log, 0, 3)
    write = prepared(log, synced(3, 6))
    OPENED[-1].close()
    assert filesystem.open_count == 2
    write.write()
    log.complete(write)
    assert filesystem.open_count == 0
    append(log, 6, 9)
    assert read_all(log) == expected(0, 9)


class PartialWrites(FileSystem):
    """Takes only a part of the next synced write, or refuses to sync it at once."""

    def __init__(self) -> None:
        self.next_octets: int | None = None
        self.next_error: int | None = None

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if sync and self.next_error is not None:
            error, self.next_error = self.next_error, None
            raise OSError(error, os.strerror(error))
        octets, self.next_octets = self.next_octets, None
        if octets is not None:
            buffers = [b"".join(buffers)[:octets]]
        return super().pwritev(descriptor, buffers, position, sync)


@pytest.mark.parametrize("octets", [0, 1, 100])
def test_a_write_that_was_taken_in_part_is_made_again(tmp_path: Path, octets: int) -> None:
    filesystem = PartialWrites()
    log, _ = open_log(tmp_path, filesystem)
    append(log, 0, 3)
    filesystem.next_octets = octets
    assert not append_in_parts(log, synced(3, 6))
    assert append_in_parts(log, synced(6, 9))
    assert read_all(open_log(tmp_path)[0]) == read_all(log) == expected(0, 9)


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_kernel_that_refuses_to_sync_with_the_write_is_believed(
    tmp_path: Path, error: int
) -> None:
    filesystem = PartialWrites()
    log, _ = open_log(tmp_path, filesystem)
    append(log, 0, 3)
    filesystem.next_error = error
    assert not append_in_parts(log, synced(3, 6))
    assert not filesystem.has_dsync
    assert not append_in_parts(log, synced(6, 9))
    assert read_all(open_log(tmp_path)[0]) == read_all(log) == expected(0, 9)


@pytest.mark.parametrize("failing", ["segment", "end"])
def test_a_failure_is_that_of_append(tmp_path: Path, failing: str) -> None:
    logs = []
    for name in ("whole", "parts"):
        root = tmp_path / name
        filesystem = FaultyFileSystem(root)
        log = timed_log(root / "q", filesystem=filesystem)
        append(log, 0, 3)
        filesystem.fail_at = len(filesystem.operations) + (failing == "end")
        with pytest.raises(LogFailedError) as raised:
            log.append(synced(3, 6)) if name == "whole" else append_in_parts(log, synced(3, 6))
        assert log.failed is raised.value
        assert raised.value.cause.args == (errno.EIO, os.strerror(errno.EIO))
        filesystem.fail_at = None
        logs.append((log, raised.value.path.name, filesystem))
    (whole, whole_path, _), (parts, parts_path, _) = logs
    assert parts_path == whole_path
    assert contents(parts.directory) == contents(whole.directory)
    for log, _, filesystem in logs:
        log.reopen()
        end = log.log_end_offset
        assert read_all(log) == expected(0, end)
        append(log, end, end + 6)
        filesystem.power_cut()
        assert read_all(open_log(log.directory)[0]) == expected(0, end + 6)
    assert parts.log_end_offset == whole.log_end_offset


def test_a_slot_that_was_taken_in_part_fails_the_log(tmp_path: Path) -> None:
    class HalfSlots(FileSystem):
        def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
            return super().pwrite(descriptor, data[: self.octets], position)

        octets = 1_000

    filesystem = HalfSlots()
    log, _ = open_log(tmp_path, filesystem)
    append(log, 0, 3)
    filesystem.octets = 10
    with pytest.raises(LogFailedError, match="10 of 168 bytes written"):
        append_in_parts(log, synced(3, 6))


def test_unneeded_pages_are_evicted_by_the_next_prepared_append(tmp_path: Path) -> None:
    class Advised(FileSystem):
        def __init__(self) -> None:
            self.evicted: list[tuple[int, int]] = []

        def wont_need(self, descriptor: int, position: int, size: int) -> None:
            self.evicted.append((position, size))

    filesystem = Advised()
    log, _ = open_log(tmp_path, filesystem, segment_bytes=1 << 30)
    append(log, 0, 3)
    end = 3
    while log.size_bytes < STEP_BYTES:
        request = Append([chunk(end, end + 2_000)], end + 2_000, sync=True, settled_floor=end)
        append_in_parts(log, request)
        end += 2_000
    assert filesystem.evicted == []
    for first in range(end, end + 9, 3):
        settled = Append([chunk(first, first + 3)], first + 3, sync=True, settled_floor=first)
        assert append_in_parts(log, settled)
    ((start, size),) = filesystem.evicted
    assert start == 0
    assert 0 < size <= log.size_bytes


def test_a_file_system_that_takes_no_advice_is_asked_once_for_pages(tmp_path: Path) -> None:
    class Refusing(FileSystem):
        def __init__(self) -> None:
            self.refused: list[int] = []

        def wont_need(self, descriptor: int, position: int, size: int) -> None:
            self.refused.append(position)
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    filesystem = Refusing()
    log, _ = open_log(tmp_path, filesystem, segment_bytes=1 << 30)
    append(log, 0, 1)
    for number in range(1, 12):
        body = message(number, body_bytes=600 << 10)
        octets = encode_chunk([body], number, None, 1_000 + number, None, SALT)
        assert append_in_parts(log, Append([octets], number + 1, sync=True, settled_floor=number))
    assert len(set(filesystem.refused)) == len(filesystem.refused) > 2
    assert log.failed is None


def test_no_pages_that_were_found_are_forgotten(tmp_path: Path) -> None:
    class Advised(FileSystem):
        def __init__(self) -> None:
            self.evicted: list[tuple[int, int]] = []

        def wont_need(self, descriptor: int, position: int, size: int) -> None:
            self.evicted.append((position, position + size))

    filesystem = Advised()
    log, _ = open_log(tmp_path, filesystem, segment_bytes=5 << 20)
    for number in range(12):
        body = message(number, body_bytes=600 << 10)
        octets = encode_chunk([body], number, None, 1_000 + number, None, SALT)
        floor = max(0, number - 5) if number < 8 else number
        append_in_parts(log, Append([octets], number + 1, sync=True, settled_floor=floor))
    first = [end for start, end in filesystem.evicted if start == 0]
    assert len(first) >= 1
    for (_, end), (start, _) in pairwise(filesystem.evicted):
        assert start in (end, 0), "some are left out"


def test_an_index_that_cannot_be_written_is_tried_once_an_entry(tmp_path: Path) -> None:
    class NoIndexes(FileSystem):
        tried = 0

        def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
            if path.suffix == ".index":
                self.tried += 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().open(path, flags, mode)

    filesystem = NoIndexes()
    log, _ = open_log(tmp_path, filesystem)
    append(log, 0, 3)
    prepared_count = 0
    for end in range(6, 1_203, 3):
        prepared_count += append_in_parts(log, synced(end - 3, end))
    index = log.segments[0].index
    assert index is not None
    assert 0 < filesystem.tried <= len(index.tail)
    assert prepared_count >= 400 - 2 * filesystem.tried


def test_operations_of_its_own_keep_a_file_system_from_the_kernel() -> None:
    assert FileSystem.writes_natively
    assert CountedFiles.writes_natively
    assert not PartialWrites.writes_natively
    assert not FaultyFileSystem.writes_natively

    class Further(CountedFiles):
        def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
            return super().pwrite(descriptor, data, position)

    class Advising(FileSystem):
        def wont_need(self, descriptor: int, position: int, size: int) -> None:
            super().wont_need(descriptor, position, size)

    class Other(FileSystem):
        def fsync(self, descriptor: int) -> None:
            super().fsync(descriptor)

    class Mixed:
        def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
            return os.pwrite(descriptor, data, position)

    class WithMixed(Mixed, CountedFiles):
        pass

    assert not Further.writes_natively
    assert not Advising.writes_natively
    assert not WithMixed.writes_natively
    assert Other.writes_natively


def test_a_file_whose_close_fails_makes_nobody_wait_or_fail(tmp_path: Path) -> None:
    class Unclosable(FileSystem):
        def close(self, descriptor: int) -> None:
            super().close(descriptor)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    filesystem, descriptors = Unclosable(), Descriptors(4)
    (tmp_path / "a").touch()
    with descriptors.borrow(filesystem, tmp_path / "a"):
        pass
    borrowed = descriptors.borrow_open(filesystem, tmp_path / "a")
    assert borrowed is not None
    descriptors.evict(filesystem, tmp_path / "a")
    descriptors.give_back(borrowed)
    closing = threading.Thread(target=descriptors.close)
    closing.start()
    closing.join(HANG_SECONDS)
    assert not closing.is_alive()
