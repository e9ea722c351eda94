import errno
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from appendlog import Descriptors, DurableDirectories, FileSystem
from appendlog.files.counted_files import CountedFiles
from appendlog.files.operation import Operation
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS


class Stingy(FileSystem):
    """Takes at most five bytes at a time, and knows no RWF_DSYNC."""

    def __init__(self) -> None:
        self.syncs = 0

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if sync:
            raise OSError(errno.EOPNOTSUPP, "no")
        return os.pwrite(descriptor, b"".join(buffers)[:5], position)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        return super().pread(descriptor, min(size, 3), position)

    def fdatasync(self, descriptor: int) -> None:
        self.syncs += 1
        super().fdatasync(descriptor)


def test_short_writes_and_reads_are_completed_and_a_refused_dsync_is_replaced(
    tmp_path: Path,
) -> None:
    filesystem = Stingy()
    descriptor = filesystem.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    end = filesystem.write_all(descriptor, [b"abc", b"", b"defghij", b"k"], 2, sync=True)
    assert end == 13
    assert filesystem.read_all(descriptor, 100, 0) == b"\0\0abcdefghijk"
    assert (filesystem.syncs, filesystem.has_dsync) == (1, False)
    filesystem.close(descriptor)


def test_other_errors_of_a_write_are_passed_on(tmp_path: Path) -> None:
    filesystem = FileSystem()
    (tmp_path / "f").touch()
    descriptor = filesystem.open(tmp_path / "f", os.O_RDONLY)
    with pytest.raises(OSError, match="descriptor"):
        filesystem.write_all(descriptor, [b"x"], 0, sync=True)
    filesystem.close(descriptor)


def test_more_buffers_than_one_call_takes_are_written(tmp_path: Path) -> None:
    filesystem = FileSystem()
    buffers = [bytes([n & 255]) * 3 for n in range(3_000)]
    descriptor = filesystem.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    assert filesystem.write_all(descriptor, buffers, 0, sync=False) == 9_000
    filesystem.fsync(descriptor)
    filesystem.close(descriptor)
    assert filesystem.read_file(tmp_path / "f", 1 << 20) == b"".join(buffers)


def test_new_directories_and_names_are_made_durable(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    directories.make(filesystem, tmp_path / "a" / "b")
    directories.sync(filesystem, tmp_path / "a" / "b")
    assert filesystem.operations == ["mkdir"] * 2 + ["sync_directory"] * 2
    directories.make(filesystem, tmp_path / "a" / "b")
    directories.sync(filesystem, tmp_path / "a" / "b")
    assert len(filesystem.operations) == 4
    descriptor = filesystem.open(tmp_path / "a" / "old", os.O_RDWR | os.O_CREAT)
    filesystem.close(descriptor)
    filesystem.rename(tmp_path / "a" / "old", tmp_path / "a" / "new")
    filesystem.sync_directory(tmp_path / "a")
    filesystem.power_cut()
    assert sorted(filesystem.listdir(tmp_path / "a")) == ["b", "new"]
    filesystem.rmdir(tmp_path / "a" / "b")
    assert not filesystem.exists(tmp_path / "a" / "b")


def test_least_recently_used_files_are_closed_and_used_ones_stay(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    descriptors = Descriptors(capacity=2)
    flags = os.O_RDWR | os.O_CREAT
    with descriptors.borrow(filesystem, tmp_path / "0", flags) as used:
        for name in "123":
            with descriptors.borrow(filesystem, tmp_path / name, flags):
                pass
        assert os.fstat(used).st_size == 0
        assert filesystem.open_count == 3
    assert filesystem.open_count == len(descriptors) == 2
    descriptors.evict(filesystem, tmp_path / "3")
    descriptors.evict(filesystem, tmp_path / "unknown")
    assert filesystem.open_count == 1
    descriptors.close()
    assert filesystem.open_count == 0


def test_a_file_that_cannot_be_opened_is_not_remembered(tmp_path: Path) -> None:
    descriptors = Descriptors()
    with pytest.raises(FileNotFoundError):
        descriptors.borrow(FileSystem(), tmp_path / "missing")
    assert len(descriptors) == 0


def test_a_power_cut_loses_what_was_not_synced(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    kept = filesystem.open(tmp_path / "kept", os.O_RDWR | os.O_CREAT)
    filesystem.write_all(kept, [b"durable"], 0, sync=True)
    filesystem.sync_directory(tmp_path)
    filesystem.write_all(kept, [b"lost"], 7, sync=False)
    nameless = filesystem.open(tmp_path / "nameless", os.O_RDWR | os.O_CREAT)
    filesystem.write_all(nameless, [b"x"], 0, sync=True)
    filesystem.unlink(tmp_path / "kept")
    filesystem.power_cut()
    assert filesystem.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept").read_bytes() == b"durable"


def test_a_held_sync_waits_for_the_gate(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.sync_gate.clear()
    thread = threading.Thread(target=filesystem.sync_directory, args=(tmp_path,))
    thread.start()
    assert filesystem.sync_waiting.wait(HANG_SECONDS)
    filesystem.sync_gate.set()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()


def test_each_sync_is_in_one_bucket_of_the_histogram(tmp_path: Path) -> None:
    files = CountedFiles()
    descriptor = files.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    files.pwritev(descriptor, [b"abc"], 0, sync=False)
    files.pwrite(descriptor, b"abc", 0)
    assert sum(files.counters().sync_buckets) == files.counters().sync_count == 0
    syncs: list[Callable[[], object]] = [
        lambda: files.fsync(descriptor),
        lambda: files.fdatasync(descriptor),
        lambda: files.sync_directory(tmp_path),
        lambda: files.sync_filesystem(tmp_path),
        lambda: files.pwritev(descriptor, [b"abc"], 0, sync=True),
    ]
    for count, sync in enumerate(syncs, 1):
        sync()
        assert sum(files.counters().sync_buckets) == files.counters().sync_count == count
    files.close(descriptor)


def test_a_write_counts_its_bytes_and_its_time_is_a_syncs_if_it_includes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("appendlog.files.counted_files.perf_counter", lambda: float(next(ticks)))
    files = CountedFiles()
    descriptor = files.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    files.pwrite(descriptor, b"abc", 0)
    files.pwritev(descriptor, [b"abc", b"de"], 0, sync=False)
    files.pwritev(descriptor, [b"abcdefg"], 0, sync=True)
    counters = files.counters()
    assert (counters.write_count, counters.write_bytes, counters.write_seconds) == (3, 15, 2.0)
    assert (counters.sync_count, counters.sync_seconds) == (1, 1.0)
    files.close(descriptor)


OPERATIONS: dict[str, tuple[str, tuple[object, ...]]] = {
    "open": ("open", (Path("f"), os.O_RDONLY)),
    "close": ("close", (3,)),
    "pread": ("pread", (3, 1, 0)),
    "read_into": ("preadv", (3, memoryview(b""), 0)),
    "pwrite": ("pwrite", (3, b"", 0)),
    "pwritev": ("pwritev", (3, [], 0, True)),
    "fsync": ("fsync", (3,)),
    "fdatasync": ("fdatasync", (3,)),
    "truncate": ("ftruncate", (3, 0)),
    "size": ("fstat", (3,)),
    "file_size": ("stat", (Path("f"),)),
    "map": ("mmap", (3, 1)),
    "rename": ("rename", (Path("g"), Path("f"))),
    "unlink": ("unlink", (Path("f"),)),
    "mkdir": ("mkdir", (Path("f"),)),
    "rmdir": ("rmdir", (Path("f"),)),
    "listdir": ("getdents", (Path("f"),)),
    "scandir": ("getdents", (Path("f"),)),
    "exists": ("stat", (Path("f"),)),
    "is_directory": ("lstat", (Path("f"),)),
    "free_bytes": ("statfs", (Path("f"),)),
    "room": ("statfs", (Path("f"),)),
    "sync_directory": ("fsync", (Path("f"),)),
    "device": ("stat", (Path("f"),)),
    "syncs_as_a_whole": ("stat", (Path("f"),)),
    "sync_filesystem": ("syncfs", (Path("f"),)),
}
"""Each single operation: the name of its system call, and arguments."""
NO_WAITS = {"will_need", "wont_need", "note_pwrite", "note_pwritev", "note_reads", "refuses_dsync"}
MADE_OF_OTHERS = {
    "run_natively",
    "write_all",
    "read_all",
    "write_file",
    "read_file",
    "sync_file",
    "remove_tree",
}


def test_each_operation_is_known_to_the_watch_or_is_made_of_others() -> None:
    methods = {name for name, value in vars(FileSystem).items() if callable(value)}
    known = {name for name in methods if not name.startswith("_")}
    assert known == {*OPERATIONS, *NO_WAITS, *MADE_OF_OTHERS}


@pytest.mark.parametrize("method", OPERATIONS)
def test_an_operation_is_under_way_until_it_returns(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    files = CountedFiles()
    name, arguments = OPERATIONS[method]
    seen: list[Operation] = []

    def operation(self: CountedFiles, *_: object, **__: object) -> int:
        seen.extend(self.under_way())
        if len(seen) > 1:
            raise OSError("refused")
        return 0

    monkeypatch.setattr(FileSystem, method, operation)
    with suppress(TypeError):  # of a count of what was read
        getattr(files, method)(*arguments)
    assert files.under_way() == []
    with pytest.raises(OSError, match="refused"):
        getattr(files, method)(*arguments)
    assert files.under_way() == []

    first, second = seen
    assert (first.name, second.name) == (name, name)
    assert first.where in (3, Path("f"))
    # Otherwise a busy disk would look like one that hangs.
    assert first.key != second.key


def test_the_file_of_an_operation_has_a_name(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        assert Operation(0, "fsync", file.fileno()).path == str(tmp_path / "f")
    assert Operation(0, "fsync", -1).path == "(descriptor -1)"
    assert Operation(0, "unlink", tmp_path).path == str(tmp_path)


def test_an_operation_that_closes_other_files_for_room_stays_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of files a cache closes some of the same file system, in the same thread."""
    files = CountedFiles()
    seen: list[Operation] = []

    def opening(self: CountedFiles, path: Path, *_: object) -> int:
        self.close(os.open(path, os.O_RDONLY))
        seen.extend(self.under_way())
        return 0

    monkeypatch.setattr(FileSystem, "open", opening)
    files.open(tmp_path, os.O_RDONLY)
    assert [each.name for each in seen] == ["open"]
    assert files.under_way() == []
