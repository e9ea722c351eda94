"""The file system on which nothing changes shows what would be there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from appendlog import DurableDirectories
from appendlog.files.dry_run import DryRunFileSystem
from appendlog.recovery.own_segments import own_segments
from tests.appendlog.builders import IDENTITY, a_log, open_log


@pytest.fixture
def filesystem() -> Iterator[DryRunFileSystem]:
    with DryRunFileSystem() as dry_run:
        yield dry_run


def read(filesystem: DryRunFileSystem, path: Path) -> bytes:
    return filesystem.read_file(path, 1 << 20)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    return path


def test_writes_cuts_and_extensions_are_seen_and_not_made(
    filesystem: DryRunFileSystem, file: Path
) -> None:
    assert filesystem.file_size(file) == 10
    descriptor = filesystem.open(file, os.O_RDWR)
    filesystem.write_all(descriptor, [b"ab", b"cd"], 8, sync=True)
    assert read(filesystem, file) == b"01234567abcd"
    assert filesystem.file_size(file) == filesystem.size(descriptor) == 12
    filesystem.truncate(descriptor, 4)
    filesystem.pwrite(descriptor, b"x", 6)
    assert read(filesystem, file) == b"0123\0\0x"
    filesystem.fsync(descriptor)
    filesystem.close(descriptor)
    assert file.read_bytes() == b"0123456789"


def test_writes_apart_from_each_other_leave_what_is_between_them(
    filesystem: DryRunFileSystem, file: Path
) -> None:
    descriptor = filesystem.open(file, os.O_RDWR)
    filesystem.pwrite(descriptor, b"ab", 1)
    filesystem.pwrite(descriptor, b"c", 6)
    assert read(filesystem, file) == b"0ab345c789"
    filesystem.close(descriptor)


@pytest.mark.parametrize(
    ("position", "found"),
    [(10, b"01234567abxy"), (11, b"01234567ab\0xy"), (12, b"01234567ab\0\0xy")],
)
def test_a_write_behind_a_cut_does_not_bring_back_what_was_cut(
    filesystem: DryRunFileSystem, file: Path, position: int, found: bytes
) -> None:
    descriptor = filesystem.open(file, os.O_RDWR)
    filesystem.pwrite(descriptor, b"abcd", 8)
    filesystem.truncate(descriptor, 10)
    filesystem.pwrite(descriptor, b"xy", position)
    assert read(filesystem, file) == found
    filesystem.close(descriptor)


def test_new_renamed_and_removed_names_are_seen_and_not_made(
    filesystem: DryRunFileSystem, tmp_path: Path, file: Path
) -> None:
    directory = tmp_path / "a" / "b"
    DurableDirectories(tmp_path).make(filesystem, directory)
    descriptor = filesystem.open(directory / "new.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    filesystem.write_all(descriptor, [b"new"], 0, sync=False)
    filesystem.close(descriptor)
    filesystem.rename(directory / "new.tmp", directory / "new")
    assert filesystem.listdir(directory) == ["new"]
    assert read(filesystem, directory / "new") == b"new"
    filesystem.unlink(file)
    assert filesystem.listdir(tmp_path) == ["a"]
    with pytest.raises(FileNotFoundError):
        filesystem.open(file, os.O_RDONLY)
    filesystem.remove_tree(tmp_path / "a")
    assert filesystem.listdir(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_errors_are_those_of_the_disk(
    filesystem: DryRunFileSystem, tmp_path: Path, file: Path
) -> None:
    with pytest.raises(FileExistsError):
        filesystem.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    with pytest.raises(FileNotFoundError):
        filesystem.open(tmp_path / "no" / "file", os.O_RDWR | os.O_CREAT)
    with pytest.raises(FileNotFoundError):
        filesystem.unlink(tmp_path / "no")
    with pytest.raises(FileNotFoundError):
        filesystem.file_size(tmp_path / "no")
    with pytest.raises(FileExistsError):
        filesystem.mkdir(tmp_path)
    with pytest.raises(OSError, match="not empty"):
        filesystem.rmdir(tmp_path)


def test_a_descriptor_cannot_write_whatever_asks_it(
    filesystem: DryRunFileSystem, file: Path
) -> None:
    descriptor = filesystem.open(file, os.O_RDWR)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    filesystem.close(descriptor)


def test_what_is_written_much_goes_to_a_temporary_file_elsewhere(
    filesystem: DryRunFileSystem, tmp_path: Path
) -> None:
    path = tmp_path / "large"
    descriptor = filesystem.open(path, os.O_RDWR | os.O_CREAT)
    block = bytes(range(256)) * 4096
    for number in range(3):
        filesystem.write_all(descriptor, [block], number * len(block), sync=False)
    assert filesystem.size(descriptor) == 3 * len(block)
    assert filesystem.read_all(descriptor, 10, len(block) + 250) == block[250:256] + block[:4]
    filesystem.close(descriptor)
    assert not path.exists()


def test_there_is_no_log_in_a_directory_that_was_moved_away(tmp_path: Path) -> None:
    a_log(tmp_path / "q" / "log", 30, segment_bytes=700)
    (tmp_path / "quarantine").mkdir()
    with DryRunFileSystem() as filesystem:
        filesystem.rename(tmp_path / "q" / "log", tmp_path / "quarantine" / "log")
        for list_ in (filesystem.listdir, filesystem.scandir):
            with pytest.raises(FileNotFoundError):
                list_(tmp_path / "q" / "log")
        assert own_segments(tmp_path / "q" / "log", IDENTITY, filesystem).names == []
        log, _ = open_log(tmp_path / "q" / "log", filesystem)
        assert log.log_end_offset == 0
