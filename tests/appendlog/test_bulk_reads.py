"""Many directories and files in one call: the same as one by one, or nothing."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from appendlog import FileSystem
from appendlog.files import bulk_reads
from appendlog.files.bulk_reads import list_directories, read_files
from appendlog.files.counted_files import CountedFiles
from appendlog.files.dry_run import DryRunFileSystem
from tests.faults.faulty_filesystem import FaultyFileSystem

needs_kernel = pytest.mark.skipif(
    bulk_reads._KERNEL is None, reason="without a compiled kernel nothing is read"
)
SMALL_BYTES = 64 << 10


@needs_kernel
def test_directories_are_listed_as_the_file_system_lists_them(tmp_path: Path) -> None:
    names = ["a", "%2f", "x" * 255, os.fsdecode(b"\xff\xfe"), "grün", " ", ".hidden"]
    directories = [tmp_path / str(number) for number in range(5)]
    for number, directory in enumerate(directories):
        directory.mkdir()
        for at, name in enumerate(names[:number]):
            (directory / name).mkdir() if at % 2 else (directory / name).touch()
    many = directories[0]
    for number in range(3_000):
        (many / f"queue-{number}").mkdir()
    (directories[1] / "link").symlink_to(directories[2])
    (directories[2] / "nowhere").symlink_to("nowhere")
    os.mkfifo(directories[3] / "pipe")
    found = list_directories(FileSystem(), [str(each) for each in directories])
    for directory, listed in zip(directories, found, strict=True):
        assert listed is not None
        assert sorted(listed) == sorted(FileSystem().scandir(directory))


@needs_kernel
def test_what_is_no_directory_is_left_to_the_file_system(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "to-empty").symlink_to("empty")
    paths = [str(tmp_path / name) for name in ("missing", "empty", "file", "to-empty")]
    assert list_directories(FileSystem(), paths) == [None, [], None, []]
    assert list_directories(FileSystem(), []) == []


@needs_kernel
def test_small_files_are_read_and_others_left_to_the_file_system(tmp_path: Path) -> None:
    contents = [b"", b"x", os.urandom(SMALL_BYTES), os.urandom(SMALL_BYTES + 1), b"\0last"]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).write_bytes(content)
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("1")
    os.mkfifo(tmp_path / "pipe")
    names = ["0", "1", "directory", "2", "3", "missing", "link", "pipe", "4"]
    files = CountedFiles()
    found = read_files(files, [str(tmp_path / name) for name in names])
    assert found == [b"", b"x", None, contents[2], None, None, None, None, b"\0last"]
    counters = files.counters()
    assert (counters.read_count, counters.read_bytes) == (4, 1 + SMALL_BYTES + 5)


@needs_kernel
def test_where_no_descriptor_is_left_nothing_is_read_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    (tmp_path / "f").write_bytes(b"x")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        listed = list_directories(FileSystem(), [str(tmp_path)])
        read = read_files(FileSystem(), [str(tmp_path / "f")])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (listed, read) == ([None], [None])


class Slow(FileSystem):
    """Reads in its own way, and says nothing of kernels."""

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        raise OSError(errno.EIO, "no")


class Kept(CountedFiles):
    """Adds nothing to what reads."""


class Watched(CountedFiles):
    """Watches its reads, and a kernel may make them."""

    reads_natively = True

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        return super().pread(descriptor, size, position)


def test_a_file_system_that_reads_in_its_own_way_is_asked_itself(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    asked: Sequence[FileSystem] = (Slow(), FaultyFileSystem(tmp_path), DryRunFileSystem())
    for each in asked:
        assert not each.reads_natively
        assert list_directories(each, [str(tmp_path)]) == [None]
        assert read_files(each, [str(tmp_path / "f")]) == [None]
    assert FileSystem.reads_natively
    assert CountedFiles.reads_natively
    assert Kept.reads_natively
    assert Watched.reads_natively


@needs_kernel
def test_what_a_kernel_does_is_under_way_until_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"x")
    files = CountedFiles()
    seen: list[tuple[str, str]] = []
    kernel = bulk_reads._KERNEL
    assert kernel is not None

    def note() -> None:
        seen.extend((each.name, str(each.where)) for each in files.under_way())

    def listing(paths: list[bytes]) -> list[list[tuple[str, bool]] | None]:
        note()
        return kernel.list_directories(paths)

    def reading(paths: list[bytes]) -> list[bytes | None]:
        note()
        return kernel.read_files(paths)

    monkeypatch.setattr(bulk_reads, "_KERNEL", type(kernel)(listing, reading))
    assert list_directories(files, [str(tmp_path)]) == [[("f", False)]]
    assert read_files(files, [str(tmp_path / "f")]) == [b"x"]
    assert seen == [("getdents", str(tmp_path)), ("pread", str(tmp_path / "f"))]
    assert files.under_way() == []
