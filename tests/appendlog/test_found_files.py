"""Files that a start has found: synced one by one, or all at once if there are many."""

import errno
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from appendlog import (
    Descriptors,
    FileSystem,
    Log,
    LogFailedError,
    LogOptions,
    RecoveryReport,
)
from appendlog.files import filesystem as filesystem_module
from appendlog.files.dry_run import DryRunFileSystem
from appendlog.files.found_files import SINGLY_MAX, FoundFiles
from appendlog.recovery.log_images import read_images
from tests.appendlog.builders import IDENTITY, append, chunk, expected, open_log, read_all
from tests.faults.faulty_filesystem import FaultyFileSystem

MANY = SINGLY_MAX + 10


class Recorded(FileSystem):
    """File operations that note which files are synced.

    Args:
        error: errno of each sync of a file system; 0 if it succeeds.
    """

    reads_natively = True

    def __init__(self, error: int = 0) -> None:
        self.error = error
        self.singly: list[str] = []
        self.wholes: list[Path] = []
        self.devices: dict[str, int] = {}
        self.is_known = True
        self.fails = False

    def device(self, path: Path) -> int:
        return self.devices.get(path.name, super().device(path))

    def syncs_as_a_whole(self, path: Path) -> bool:
        return self.is_known

    def sync_filesystem(self, path: Path) -> None:
        if self.error:
            raise OSError(self.error, "no")
        self.wholes.append(path)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if self.fails:
            raise OSError(errno.ENOSPC, "no")
        return super().pwritev(descriptor, buffers, position, sync)

    def fdatasync(self, descriptor: int) -> None:
        self.singly.append("file")
        super().fdatasync(descriptor)

    def sync_directory(self, path: Path) -> None:
        self.singly.append("directory")
        super().sync_directory(path)


def opened(
    directory: Path, filesystem: FileSystem, found_files: FoundFiles | None
) -> tuple[Log, RecoveryReport]:
    (image,) = read_images(filesystem, [directory])
    options = LogOptions(index_interval_bytes=256, descriptors=Descriptors(4))
    return Log.open(directory, IDENTITY, options, filesystem, 0, 0, image, found_files)


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    """Return directories of logs that go on behind the end that their `end` files name."""
    found = [tmp_path / str(number) for number in range(MANY)]
    for directory in found:
        log, _ = open_log(directory)
        append(log, 0, 6)
        end = (directory / "end").read_bytes()
        append(log, 6, 9)
        log.close()
        (directory / "end").write_bytes(end)
    return found


@pytest.mark.parametrize("is_native", [True, False])
def test_of_many_logs_most_are_synced_with_the_whole_file_system(
    directories: list[Path], is_native: bool
) -> None:
    files, found_files = Recorded(), FoundFiles()
    files.reads_natively = is_native
    for number, directory in enumerate(directories):
        log, report = opened(directory, files, found_files)
        assert report.scanned_bytes == len(chunk(6, 9))
        assert (log.log_end_offset, log.recovery_point) == (9, 9)
        assert read_all(log) == expected(0, 9)
        log.close()
        assert len(files.wholes) == (number >= SINGLY_MAX)
    assert len(files.singly) == SINGLY_MAX * 2  # the segment, and its directory
    again = Recorded()
    for directory in directories:
        # All `end` files are as they should be now.
        _, report = opened(directory, again, FoundFiles())
        assert report.scanned_bytes == 0
    assert not again.singly
    assert not again.wholes


def test_each_file_system_is_synced_once(directories: list[Path]) -> None:
    files, found_files = Recorded(), FoundFiles()
    files.devices = {directory.name: number % 3 for number, directory in enumerate(directories)}
    for directory in directories:
        opened(directory, files, found_files)
    assert [path.name for path in files.wholes] == ["32", "33", "34"]


@pytest.mark.parametrize("error", [0, errno.EIO])
def test_logs_sync_by_themselves_where_a_file_system_does_not(
    directories: list[Path], error: int, caplog: pytest.LogCaptureFixture
) -> None:
    files, found_files = Recorded(error), FoundFiles()
    files.is_known = bool(error)
    for directory in directories:
        log, _ = opened(directory, files, found_files)
        assert log.recovery_point == 9
    assert not files.wholes
    assert len(files.singly) == MANY * 2
    # Once, and not for each log.
    assert caplog.text.count("file system not synced as a whole") == bool(error)


def test_a_log_that_is_gone_fails_as_it_does_without(directories: list[Path]) -> None:
    files, found_files = Recorded(), FoundFiles()
    for directory in directories[:SINGLY_MAX]:
        assert not found_files.are_synced(files, directory)
    with pytest.raises(FileNotFoundError):
        found_files.are_synced(files, directories[0].parent / "gone")


def test_a_dry_run_syncs_nothing(directories: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("device", "sync_filesystem", "sync_directory", "fsync", "fdatasync"):
        monkeypatch.delattr(FileSystem, name)
    with DryRunFileSystem() as files:
        found_files = FoundFiles()
        for directory in directories:
            end = (directory / "end").read_bytes()
            log, _ = opened(directory, files, found_files)
            assert log.recovery_point == 9
            assert (directory / "end").read_bytes() == end


@pytest.mark.crash
@pytest.mark.parametrize("seed", [None, *range(5)])
def test_what_a_start_calls_durable_survives_a_power_cut(tmp_path: Path, seed: int | None) -> None:
    files = FaultyFileSystem(tmp_path)
    directories = [tmp_path / str(number) for number in range(MANY)]
    for directory in directories:
        log, _ = open_log(directory, files)
        append(log, 0, 3)
        end = (directory / "end").read_bytes()
        append(log, 3, 9, sync=False)
        (directory / "end").write_bytes(end)
    files.end_process()
    found_files = FoundFiles()
    for directory in directories:
        log, _ = opened(directory, files, found_files)
        assert log.recovery_point == 9
    assert files.operations.count("sync_filesystem") == 1
    files.power_cut(None if seed is None else random.Random(seed))
    for directory in directories:
        log, report = open_log(directory)
        assert not report.is_damaged
        assert read_all(log) == expected(0, 9)


def test_a_log_that_has_failed_is_synced_by_itself_when_it_is_opened_again(
    directories: list[Path],
) -> None:
    """What it wrote since the start is not known to be on the disk."""
    files, found_files = Recorded(), FoundFiles()
    logs = [opened(directory, files, found_files)[0] for directory in directories]
    files.singly.clear()
    log = logs[-1]
    append(log, 9, 12, sync=False)
    files.fails = True
    with pytest.raises(LogFailedError):
        append(log, 12, 15)
    files.fails = False
    log.reopen()
    assert len(files.singly) >= 2
    append(log, 12, 15)
    assert read_all(log) == expected(0, 15)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the version of the kernel that the file system sees; its first entry counts."""
    release = ["6.1.0-13-cloud-amd64"]

    class Names:
        @property
        def release(self) -> str:
            return release[0]

    monkeypatch.setattr(os, "uname", Names)
    return release


@pytest.mark.parametrize(
    ("kind", "release", "is_known"),
    [
        ("ext4", "6.1.0-13-cloud-amd64", True),
        ("xfs", "5.17.0", True),
        ("xfs", "5.16.20", False),
        ("ext2", "6.1.0", False),
        ("overlay", "6.1.0", False),
        ("ext4", "4.18.0-553.el8.x86_64", False),
        ("fuse.sshfs", "6.1.0", False),
        ("nfs4", "6.1.0", False),
        ("", "6.1.0", False),
    ],
)
def test_a_whole_sync_counts_where_it_reaches_the_disk_and_reports_errors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: list[str],
    kind: str,
    release: str,
    is_known: bool,
) -> None:
    kernel[0] = release
    monkeypatch.setattr(filesystem_module, "file_system_type", lambda _: kind)
    assert FileSystem().syncs_as_a_whole(tmp_path) == is_known


def test_other_systems_have_no_whole_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not FileSystem().syncs_as_a_whole(tmp_path)
