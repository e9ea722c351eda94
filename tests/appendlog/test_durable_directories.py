"""A confirmed message must not be lost with the name of one of the directories above it."""

import threading
from pathlib import Path

import pytest

from appendlog import DurableDirectories, Log, LogOptions
from appendlog.files.descriptors import Descriptors
from tests.appendlog.builders import IDENTITY, OPENED, append, expected, open_log, read_all
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS


def open_in(
    directories: DurableDirectories,
    directory: Path,
    filesystem: FaultyFileSystem,
    segment_bytes: int = 1 << 20,
) -> Log:
    """Open a log that shares its parents with others."""
    options = LogOptions(
        segment_bytes=segment_bytes, descriptors=Descriptors(4), directories=directories
    )
    OPENED.append(options.descriptors)
    return Log.open(directory, IDENTITY, options, filesystem)[0]


def test_a_new_log_is_written_once_and_then_its_names_are_synced(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    first = open_in(directories, tmp_path / "v" / "q" / "1", filesystem)
    append(first, 0, 3)
    write = ["create", "pwritev"]
    end = ["create", "pwrite"]
    assert filesystem.operations == ["mkdir"] * 3 + write + ["sync_directory"] * 4 + end

    filesystem.operations.clear()
    beside = open_in(directories, tmp_path / "v" / "q" / "2", filesystem)
    append(beside, 0, 3)
    assert filesystem.operations == ["mkdir", *write, *["sync_directory"] * 2, *end]

    filesystem.operations.clear()
    append(beside, 3, 6)
    assert filesystem.operations == ["pwritev", "pwrite"]


@pytest.mark.parametrize("end", [3, 30], ids=["first append", "rolled segments"])
def test_every_name_survives_a_power_cut(tmp_path: Path, end: int) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directory = tmp_path / "logs" / "v" / "q" / "1"
    log = open_in(DurableDirectories(tmp_path), directory, filesystem, segment_bytes=300)
    append(log, 0, end)
    filesystem.power_cut()
    assert read_all(open_log(directory)[0]) == expected(0, end)


def test_directories_that_a_dead_process_made_are_synced_by_the_next(tmp_path: Path) -> None:
    """They used to count as safe because they were there."""
    filesystem = FaultyFileSystem(tmp_path)
    directory = tmp_path / "v" / "q" / "1"
    DurableDirectories(tmp_path).make(filesystem, directory)
    log = open_in(DurableDirectories(tmp_path), directory, filesystem)
    append(log, 0, 3)
    filesystem.power_cut()
    assert read_all(open_log(directory)[0]) == expected(0, 3)


def test_a_segment_that_a_dead_process_wrote_is_safe_with_its_names_when_recovered(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directory = tmp_path / "v" / "q" / "1"
    log = open_in(DurableDirectories(tmp_path), directory, filesystem)
    append(log, 0, 3, sync=False)
    log = open_in(DurableDirectories(tmp_path), directory, filesystem)
    assert log.recovery_point == 3
    filesystem.power_cut()
    assert read_all(open_log(directory)[0]) == expected(0, 3)


def test_nobody_relies_on_a_sync_that_another_has_yet_to_do(tmp_path: Path) -> None:
    """The second of two new queues confirmed while the first was about to sync their parent."""
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    directories.make(filesystem, tmp_path / "v" / "1")
    log = open_in(directories, tmp_path / "v" / "2", filesystem)
    append(log, 0, 3)
    filesystem.power_cut()
    assert read_all(open_log(tmp_path / "v" / "2")[0]) == expected(0, 3)


def test_a_directory_that_is_made_again_is_synced_again(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    directory = tmp_path / "v"
    for _ in range(2):
        filesystem.operations.clear()
        directories.make(filesystem, directory)
        directories.sync(filesystem, directory)
        assert filesystem.operations == ["mkdir", "sync_directory"]
        directory.rmdir()


def test_threads_that_make_the_same_parents_all_succeed(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    errors: list[Exception] = []
    begin = threading.Barrier(8)

    def make(number: int) -> None:
        begin.wait(HANG_SECONDS)
        try:
            for queue in range(20):
                directories.make(filesystem, tmp_path / "v" / str(queue) / str(number))
                directories.sync(filesystem, tmp_path / "v" / str(queue) / str(number))
        except Exception as error:  # noqa: BLE001 - shown by the assert
            errors.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(list((tmp_path / "v").glob("*/*"))) == 160


def test_a_log_that_is_deleted_before_its_first_append_is_marked_by_that(tmp_path: Path) -> None:
    """The append was under way: without a mark its log would look as if its definition was lost."""
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    directory = tmp_path / "v" / "q" / "1"
    log = open_in(directories, directory, filesystem)
    directories.mark_deleted(filesystem, directory)
    assert not directory.exists()
    append(log, 0, 3)
    assert (directory / "deleted").exists()
    # Before the segment: a power cut may leave the mark without it, never it without the mark.
    filesystem.power_cut()
    assert (directory / "deleted").exists()


def test_a_mark_that_was_taken_back_is_not_set_by_a_later_append(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    directory = tmp_path / "v" / "q" / "1"
    log = open_in(directories, directory, filesystem)
    directories.mark_deleted(filesystem, directory)
    directories.remove_mark(filesystem, directory)
    append(log, 0, 3)
    assert not (directory / "deleted").exists()
    directories.mark_deleted(filesystem, directory)
    directories.remove_mark(filesystem, directory)
    assert not (directory / "deleted").exists()


def test_the_last_log_of_a_name_takes_its_directory_with_it(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    logs = [open_in(directories, tmp_path / "v" / "q" / name, filesystem) for name in "12"]
    for log in logs:
        append(log, 0, 3)
    logs[0].delete()
    assert (tmp_path / "v" / "q").exists()
    logs[1].delete()
    assert not (tmp_path / "v" / "q").exists()
    # Its name counted as safe; it is another directory now.
    again = open_in(directories, tmp_path / "v" / "q" / "3", filesystem)
    append(again, 0, 3)
    filesystem.power_cut()
    assert read_all(open_log(tmp_path / "v" / "q" / "3")[0]) == expected(0, 3)


def test_logs_of_one_name_come_and_go_beside_each_other(tmp_path: Path) -> None:
    """One removed the directory that the other was about to make its own in."""
    filesystem = FaultyFileSystem(tmp_path)
    directories = DurableDirectories(tmp_path)
    errors: list[BaseException] = []

    def come_and_go(thread: int) -> None:
        try:
            for number in range(30):
                name = f"{thread}-{number}"
                log = open_in(directories, tmp_path / "v" / "q" / name, filesystem)
                append(log, 0, 3)
                log.delete()
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not (tmp_path / "v" / "q").exists()
