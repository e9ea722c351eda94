"""Threads that write without the interpreter do what a prepared write says, and tell what came."""

import errno
import gc
import mmap
import os
import resource
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from appendlog import Append
from appendlog.files.counted_files import CountedFiles
from appendlog.files.descriptors import Borrowed
from appendlog.files.filesystem import FileSystem
from appendlog.flushing.bell import Bell
from appendlog.flushing.write_threads import WriteThreads, write_threads
from appendlog.segments.segment_write import NO_PAGES, SegmentWrite
from tests.appendlog.system_threads import thread_statuses
from tests.limits import HANG_SECONDS

LOCK: Final = threading.RLock()
NOTHING: Final = Append([], 0, sync=True)


class Bench:
    """Threads and their bell, and the files that they write.

    Args:
        directory: Where the files are.
        count: Number of threads.
    """

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.bell = Bell()
        threads = write_threads(count, self.bell.ringing_fileno)
        if threads is None:
            pytest.skip("the kernel is compiled on Linux only")
        self.threads: WriteThreads = threads
        self.directory = directory
        self.files: list[int] = []

    def file(self, name: str, flags: int = os.O_RDWR | os.O_CREAT) -> int:
        self.files.append(os.open(self.directory / name, flags, 0o600))
        return self.files[-1]

    def write(
        self,
        segment: int,
        end: int,
        *buffers: bytes | memoryview,
        position: int = 0,
        slot: bytes = b"slot",
        filesystem: FileSystem | None = None,
        unneeded: tuple[int, int] = NO_PAGES,
    ) -> SegmentWrite:
        filesystem = filesystem or FileSystem()
        return SegmentWrite(
            filesystem,
            self.directory / "segment",
            NOTHING,
            Borrowed(LOCK, filesystem, segment),
            Borrowed(LOCK, filesystem, end),
            buffers,
            sum(map(len, buffers)),
            position,
            slot,
            512,
            unneeded,
        )

    def take(self, count: int) -> list[SegmentWrite]:
        """Wait for this many writes."""
        taken: list[SegmentWrite] = []
        while len(taken) < count:
            assert wait([self.bell.fileno], HANG_SECONDS), f"{len(taken)} of {count} are done"
            self.bell.clear()
            taken += self.threads.take()
        return taken

    def close(self) -> None:
        self.threads.close()
        self.bell.close()
        for descriptor in self.files:
            os.close(descriptor)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_the_octets_and_then_the_slot_are_written_where_they_belong(
    bench: Bench, tmp_path: Path
) -> None:
    segment, end = bench.file("segment"), bench.file("end")
    os.write(segment, b"front")
    write = bench.write(segment, end, b"one ", b"", b"two", position=5)
    bench.threads.submit(write)
    assert bench.take(1) == [write]
    assert (tmp_path / "segment").read_bytes() == b"frontone two"
    assert (tmp_path / "end").read_bytes() == bytes(512) + b"slot"
    assert (write.error, write.slot_error, write.is_refused) == (None, None, False)


def test_a_position_above_4_gib_is_written(bench: Bench) -> None:
    segment, end = bench.file("segment"), bench.file("end")
    position = (5 << 30) + 7
    bench.threads.submit(bench.write(segment, end, b"far", position=position))
    bench.take(1)
    assert os.pread(segment, 10, position) == b"far"
    assert os.fstat(segment).st_size == position + 3


def test_a_write_that_fails_says_why_and_writes_no_slot(bench: Bench, tmp_path: Path) -> None:
    segment, end = bench.file("segment"), bench.file("end")
    os.close(segment)
    bench.files.remove(segment)
    write = bench.write(segment, end, b"one")
    bench.threads.submit(write)
    bench.take(1)
    assert isinstance(write.error, OSError)
    assert (write.error.errno, write.error.strerror) == (errno.EBADF, os.strerror(errno.EBADF))
    assert write.slot_error is None
    assert (tmp_path / "end").read_bytes() == b""


def test_a_slot_that_fails_says_why(bench: Bench, tmp_path: Path) -> None:
    segment = bench.file("segment")
    (tmp_path / "end").touch()
    write = bench.write(segment, bench.file("end", os.O_RDONLY), b"one")
    bench.threads.submit(write)
    bench.take(1)
    assert write.error is None
    assert isinstance(write.slot_error, OSError)
    assert write.slot_error.errno == errno.EBADF
    assert (tmp_path / "segment").read_bytes() == b"one"


def test_a_file_that_cannot_be_synced_with_the_write_asks_for_another_way(bench: Bench) -> None:
    filesystem = FileSystem()
    device = bench.file("/dev/full", os.O_WRONLY)
    write = bench.write(device, bench.file("end"), b"one", filesystem=filesystem)
    bench.threads.submit(write)
    bench.take(1)
    assert (write.error, write.is_refused) == (None, True)
    assert not filesystem.has_dsync


def is_cached(file: int, position: int) -> bool:
    """Return whether the kernel has a page of a file in memory."""
    try:
        os.preadv(file, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def on_disk() -> Iterator[Bench]:
    """Files that are not in memory: only there pages can leave the cache."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        bench = Bench(Path(directory))
        yield bench
        bench.close()


def test_pages_that_need_not_stay_leave_the_cache(on_disk: Bench) -> None:
    bench = on_disk
    segment, end = bench.file("segment"), bench.file("end")
    pages = bytes(64 * mmap.PAGESIZE)
    bench.threads.submit(bench.write(segment, end, pages))
    bench.take(1)
    try:
        assert is_cached(segment, 0)
        os.posix_fadvise(segment, 0, len(pages), os.POSIX_FADV_DONTNEED)
        leave = not is_cached(segment, 0)
    except OSError as error:
        pytest.skip(f"this file system does not say what it has cached: {error}")
    if not leave:
        pytest.skip("this file system keeps all pages")
    assert os.pread(segment, 1, 0)
    for number, position in enumerate((len(pages), len(pages) + 1)):
        assert is_cached(segment, 0)
        unneeded = (0, len(pages)) if number else NO_PAGES
        bench.threads.submit(bench.write(segment, end, b"x", position=position, unneeded=unneeded))
        bench.take(1)
    assert not is_cached(segment, 0)


def test_pages_of_a_write_that_fails_stay(on_disk: Bench) -> None:
    bench = on_disk
    segment, end = bench.file("segment"), bench.file("end")
    (pages, position) = bytes(64 * mmap.PAGESIZE), 64 * mmap.PAGESIZE
    bench.threads.submit(bench.write(segment, end, pages))
    bench.take(1)
    write = bench.write(segment, -1, b"x", position=position, unneeded=(0, position))
    bench.threads.submit(write)
    bench.take(1)
    assert write.slot_error is not None
    try:
        assert is_cached(segment, 0)
    except OSError as error:
        pytest.skip(f"this file system does not say what it has cached: {error}")


def limited() -> None:
    """In a process of its own: a file may not become longer than ten octets."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
    bench = Bench(Path(sys.argv[1]))
    segment = bench.file("segment")
    end = os.open("/dev/null", os.O_WRONLY)
    part, none = bench.write(segment, end, b"0123456", b"789abc"), None
    bench.threads.submit(part)
    bench.take(1)
    none = bench.write(segment, end, b"more", position=10)
    bench.threads.submit(none)
    bench.take(1)
    print(part.error, part.is_refused, none.error, none.is_refused)


def test_a_write_that_is_taken_in_part_asks_for_another_way(bench: Bench, tmp_path: Path) -> None:
    command = "from tests.appendlog.test_write_threads import limited; limited()"
    printed = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert printed.stdout == "None True [Errno 27] File too large False\n"
    assert (tmp_path / "segment").read_bytes() == b"0123456789"


def test_many_writes_are_all_done_once(bench: Bench) -> None:
    segments = [bench.file(f"segment {number}") for number in range(4)]
    end = bench.file("end")
    writes = [
        bench.write(segments[number % 4], end, b"%04d" % number, position=number // 4 * 4)
        for number in range(400)
    ]
    for write in writes:
        bench.threads.submit(write)
    taken = bench.take(400)
    assert len(set(map(id, taken))) == 400
    assert {id(write) for write in writes} == {id(write) for write in taken}
    for at, segment in enumerate(segments):
        found = os.pread(segment, 1_000, 0)
        assert found == b"".join(b"%04d" % number for number in range(at, 400, 4))
    assert bench.threads.take() == []


def test_what_is_written_is_kept_until_then_and_released_after_it(bench: Bench) -> None:
    segment, end = bench.file("segment"), bench.file("end")
    octets = bytearray(b"x" * 100)
    write = bench.write(segment, end, memoryview(octets))
    bench.threads.submit(write)
    with pytest.raises(BufferError):
        octets.append(0)
    (taken,) = bench.take(1)
    taken.buffers = ()
    octets.append(0)


@pytest.mark.interpreted("weak references")
def test_a_write_that_was_taken_is_kept_no_longer(bench: Bench) -> None:
    class Watched(SegmentWrite):
        """Can be referred to weakly."""

    write = bench.write(bench.file("segment"), bench.file("end"), b"one")
    watched = Watched(
        write.filesystem,
        write.path,
        write.append,
        write.segment,
        write.end,
        write.buffers,
        write.octets,
        write.position,
        write.slot,
        write.slot_position,
    )
    bench.threads.submit(watched)
    known = weakref.ref(watched)
    del watched
    gc.collect()
    assert known() is not None, "the threads have it"
    bench.take(1)
    assert known() is None


def test_something_else_than_octets_is_refused(bench: Bench) -> None:
    write = bench.write(bench.file("segment"), bench.file("end"), b"one")
    write.buffers = (b"one", "text")  # type: ignore[assignment]
    with pytest.raises(TypeError):
        bench.threads.submit(write)
    assert bench.threads.take() == []


def test_a_close_waits_for_what_was_submitted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, count=1)
    segment, end = bench.file("segment"), bench.file("end")
    for number in range(20):
        bench.threads.submit(bench.write(segment, end, b"%02d" % number, position=2 * number))
    bench.threads.close()
    assert len(bench.threads.take()) == 20
    bench.close()
    assert (tmp_path / "segment").read_bytes() == b"".join(b"%02d" % n for n in range(20))


def test_what_is_done_can_be_seen_before_it_is_taken(bench: Bench) -> None:
    segment, end = bench.file("segment"), bench.file("end")
    assert bench.threads.written() == []
    writes = [bench.write(segment, end, b"12345", position=5 * number) for number in range(3)]
    for each in writes:
        bench.threads.submit(each)
    deadline = time.monotonic() + HANG_SECONDS
    while len(found := bench.threads.written()) < len(writes):
        assert time.monotonic() < deadline, "they are never done"
        time.sleep(0.001)
    assert set(found) == set(writes)
    assert set(bench.threads.take()) == set(writes)
    assert bench.threads.written() == []


def test_each_write_is_counted(bench: Bench) -> None:
    filesystem = CountedFiles()
    segment, end = bench.file("segment"), bench.file("end")
    bench.threads.submit(bench.write(segment, end, b"12345", filesystem=filesystem))
    bench.take(1)
    counters = filesystem.counters()
    assert (counters.write_count, counters.write_bytes, counters.sync_count) == (2, 9, 1)
    assert counters.sync_seconds > 0
    assert counters.write_seconds > 0
    # A failed operation is none, as with the operations that are not a kernel's.
    bench.threads.submit(bench.write(-1, end, b"12345", filesystem=filesystem))
    bench.take(1)
    assert filesystem.counters() == counters


def test_the_threads_take_no_signals(bench: Bench) -> None:
    threads = [status for status in thread_statuses() if status["Name"] == "amqp-write"]
    blocked = [int(status["SigBlk"], 16) for status in threads]
    assert len(blocked) >= 3
    # All but those that cannot be blocked, and two of the C library.
    assert all(mask & 0x7FFA_FEFF == 0x7FFA_FEFF for mask in blocked)
