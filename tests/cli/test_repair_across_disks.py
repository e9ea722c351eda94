"""Logs on a file system of their own: a symbolic link or a mount, repaired and interrupted."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_server.maintenance.directory_check import check_directory
from amqp_server.maintenance.repair import RepairOptions, repair_directory
from amqp_server.maintenance.stored_queues import load_stored_queues
from amqp_server.recovery.quarantine import Quarantine
from appendlog import FileSystem
from appendlog.segments.segment import segment_names
from cli.main import main
from offsets import OffsetsError
from tests.amqp_client import connect
from tests.cli.test_repair import ALL, kept
from tests.cli.test_verify import Spoil, break_chunk, break_end, break_index, lose_definition
from tests.data_directories import fill, log_of, segments_of, snapshot, take
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.threaded_server import ThreadedServer

OTHER_DISK = Path("/dev/shm")
OPERATIONS_MAX = 1000
"""More than any of these repairs needs: one that never succeeds must not fill a disk."""


class TwoDisks(FileSystem):
    """Directories `logs` are on a disk of their own: nothing is renamed from or to it."""

    def rename(self, source: Path, target: Path) -> None:
        refuse_across(source, target)
        super().rename(source, target)


class FaultyTwoDisks(FaultyFileSystem):
    """The same, and it fails at an operation."""

    def rename(self, source: Path, target: Path) -> None:
        refuse_across(source, target)
        super().rename(source, target)


def refuse_across(source: Path, target: Path) -> None:
    """Refuse what the operating system refuses between two file systems."""
    if ("quarantine" in source.parts) != ("quarantine" in target.parts):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after a clean stop: queues `a` and `b` with six messages each."""
    path = tmp_path_factory.mktemp("sound") / "data"
    fill(path, a=6, b=6)
    return path


@pytest.fixture
def storage(sound: Path, tmp_path: Path, clean_environment: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    path = tmp_path / "data"
    shutil.copytree(sound, path)
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(path))
    return path


@pytest.fixture
def elsewhere(storage: Path) -> Iterator[Path]:
    """A data directory whose `logs` is a link to another file system, if there is another."""
    there = OTHER_DISK if OTHER_DISK.is_dir() else None
    with tempfile.TemporaryDirectory(dir=there) as name:
        shutil.move(storage / "logs", Path(name) / "logs")
        (storage / "logs").symlink_to(Path(name) / "logs")
        yield storage


def mend(storage: Path, filesystem: FileSystem) -> list[tuple[int, int]]:
    """Repair, giving up what has no definition; return the offsets that were given up."""
    options = RepairOptions(drop_definitions=True)
    repair = repair_directory(storage, options, lambda _: None, filesystem)
    assert repair.check is not None
    assert repair.check.all_problems() == []
    return [(start, end) for _, start, end in repair.lost]


def problems(storage: Path) -> list[str]:
    check = check_directory(load_stored_queues(storage))
    return sorted({problem.kind for problem in check.all_problems()})


def generations(storage: Path) -> list[int]:
    names = segment_names(path.name for path in log_of(storage, "a").iterdir())
    return [name.generation for name in names]


def test_logs_behind_a_link_are_served_checked_saved_and_mended(
    elsewhere: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify"]) == 0
    assert main(["recover", "--dry-run"]) == 0
    assert main(["backup", str(tmp_path / "copy")]) == 0
    assert take(tmp_path / "copy", "a") == ALL
    break_chunk(elsewhere)
    (segment,) = segments_of(elsewhere, "a")
    content = segment.read_bytes()
    assert main(["repair", "--yes"]) == 0, capsys.readouterr().err
    assert generations(elsewhere) == [1]
    assert content in kept(elsewhere)
    assert main(["verify"]) == 0
    assert main(["repair", "--dry-run"]) == 0
    assert (elsewhere / "logs").is_symlink()
    assert take(elsewhere, "a") == [*ALL[:2], *ALL[3:]]
    assert take(elsewhere, "b") == ALL


def ready(storage: Path) -> tuple[int, list[bytes], int]:
    """Start a server; return how many messages are ready, which, and how many afterwards."""
    with ThreadedServer(storage) as server, connect(server.address) as client:
        client.open_channel()
        count = client.ready_count("a")
        bodies = []
        while (message := client.get("a")) is not None:
            bodies.append(message.body)
        return count, bodies, client.ready_count("a")


@pytest.mark.parametrize("spoil", [break_chunk, break_index, break_end, lose_definition])
def test_what_is_taken_out_of_another_file_system_is_kept(storage: Path, spoil: Spoil) -> None:
    spoil(storage)
    log = log_of(storage, "a")
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    mend(storage, TwoDisks())
    after = {path.name: path.read_bytes() for path in log.iterdir()} if log.exists() else {}
    gone = [before[name] for name in before if before[name] != after.get(name)]
    assert gone
    assert all(content in kept(storage) for content in gone)
    assert take(storage, "b") == ALL


def test_a_repair_that_fails_anywhere_leaves_a_log_as_good_as_it_was_and_can_be_repeated(
    sound: Path, tmp_path: Path
) -> None:
    """One operation fails, and nothing after it: what was begun is taken back."""
    for fail_at in range(OPERATIONS_MAX):
        storage = tmp_path / f"data-{fail_at}"
        shutil.copytree(sound, storage)
        break_chunk(storage)
        (segment,) = segments_of(storage, "a")
        content = segment.read_bytes()
        filesystem = FaultyTwoDisks(storage, fail_at, errno.ENOSPC, failing_operations=1)
        try:
            mend(storage, filesystem)
        except (OSError, OffsetsError) as error:
            assert len(generations(storage)) == 1
            assert content in [*kept(storage), segments_of(storage, "a")[0].read_bytes()]
            assert not [name for name in problems(storage) if name == "old-generation"]
            if fail_at % 8 == 0 or isinstance(error, OffsetsError):
                assert mend(storage, FileSystem()) in ([(2, 3)], [])
                assert problems(storage) == []
                assert ready(storage) == (5, [*ALL[:2], *ALL[3:]], 0)
        shutil.rmtree(storage)
        if len(filesystem.operations) <= fail_at:
            break
    assert 15 < fail_at < OPERATIONS_MAX - 1


def test_a_directory_is_wholly_there_before_any_of_it_goes(tmp_path: Path) -> None:
    for fail_at in range(OPERATIONS_MAX):
        storage = tmp_path / f"data-{fail_at}"
        log = storage / "logs" / "%2f" / "q"
        (log / "x").mkdir(parents=True)
        (log / "x" / "end").write_bytes(b"end")
        (log / "x" / "0.log").write_bytes(bytes(3_000_000))
        (log / "link").symlink_to("x")
        before = snapshot(log)
        filesystem = FaultyTwoDisks(storage, fail_at, errno.EIO)
        quarantine = Quarantine(storage, filesystem)
        try:
            taken = quarantine.take(log)
        except OSError:
            taken = quarantine.path / "logs" / "%2f" / "q"
            is_here = snapshot(log) == before if log.exists() else False
            assert is_here or contents(taken) == CONTENTS
        else:
            assert not log.exists()
            assert contents(taken) == CONTENTS
            break
    assert 10 < fail_at < OPERATIONS_MAX - 1


CONTENTS = {"x/end": b"end", "x/0.log": bytes(3_000_000), "link": b"x"}


def contents(directory: Path) -> dict[str, bytes]:
    """Return the files and links of a directory and what is in them."""
    return {
        str(path.relative_to(directory)): (
            os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        )
        for path in directory.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_what_is_taken_twice_is_kept_twice(tmp_path: Path) -> None:
    storage, end = tmp_path / "data", tmp_path / "data" / "logs" / "end"
    end.parent.mkdir(parents=True)
    for filesystem in (FileSystem(), TwoDisks()):
        quarantine = Quarantine(storage, filesystem)
        for content in (b"one", b"two"):
            end.write_bytes(content)
            quarantine.take(end)
        assert sorted(path.read_bytes() for path in quarantine.moved) == [b"one", b"two"]
