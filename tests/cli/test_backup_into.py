"""`amqp-server backup --into DIR`: back-ups that a timer makes, and the removal of the oldest."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amqp_server.maintenance.backup_series import SERIES_LOCK_NAME, BackupSeries
from cli.main import main
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.data_directories import chunk_positions, damage, fill, segments_of, snapshot, take
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ", re.ASCII)
SAME_DISK = "lies on the file system of the data directory"


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""


class Runs:
    """Runs of the command on one data directory into one directory of back-ups.

    Args:
        place: Directory of the test.
        capsys: What a run writes.

    Attributes:
        storage: The data directory.
        into: The directory of back-ups.
        errors: What the last run wrote to standard error.
    """

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.storage = place / "data"
        self.into = place / "backups"
        self.errors = ""
        self._capsys = capsys

    def run(self, *more: str) -> tuple[int, str]:
        """Run it; return the exit code and what it writes."""
        words = ["--into", str(self.into), "--storage-path", str(self.storage), *more]
        self._capsys.readouterr()
        code = main(["backup", *words])
        written = self._capsys.readouterr()
        self.errors = written.err
        return code, written.out

    def good_one(self, *more: str) -> Path:
        """Run what must make a good back-up; return its path."""
        code, text = self.run("--json", *more)
        assert code == 0, self.errors
        return Path(json.loads(text)["path"])

    def names(self) -> list[str]:
        """Return the names of what is in the directory of back-ups, without the lock."""
        return sorted({each.name for each in self.into.iterdir()} - {SERIES_LOCK_NAME})


@pytest.fixture
def runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runs:
    return Runs(tmp_path, capsys)


def test_the_oldest_are_removed_beside_a_running_server(
    runs: Runs, start_server: StartServer
) -> None:
    server = start_server(storage_path=runs.storage)
    made = []
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("a")
        for number in range(3):
            client.publish(b"m%d" % number, "a")
            client.expect_confirmed()
            code, text = runs.run("--keep", "2")
            assert code == 0
            assert SAME_DISK in runs.errors
            made.append(Path(text.partition(": ")[0]))
    assert "2 good back-ups, 0 with damage, 1 removed" in text
    assert all(NAME.fullmatch(path.name) for path in made)
    assert runs.names() == [path.name for path in made[1:]]
    assert runs.into.stat().st_mode & 0o777 == 0o700
    # The newest has what was confirmed before.
    assert take(made[-1], "a") == [b"m0", b"m1", b"m2"]


def test_json_says_what_was_made_kept_and_removed(runs: Runs) -> None:
    fill(runs.storage, a=2)
    first = runs.good_one()
    code, text = runs.run("--keep", "1", "--json")
    found = json.loads(text)
    assert code == 0
    assert found["kept"] == [found["path"]]
    assert found["removed"] == [str(first)]
    assert (found["outcome"], found["is_good"], found["damaged"]) == ("clean", True, [])
    assert (found["logs"], found["shares_disk"]) == (1, True)
    # A plain copy has the counts.
    other = runs.into.parent / "copy"
    assert main(["backup", str(other), "--storage-path", str(runs.storage), "--json"]) == 0


def test_without_a_number_all_stay(runs: Runs) -> None:
    fill(runs.storage, a=1)
    made = [runs.good_one().name for _ in range(3)]
    assert runs.names() == made


def test_what_is_foreign_stays(runs: Runs) -> None:
    fill(runs.storage, a=1)
    used = runs.good_one()
    # Somebody has started a server on it: it is a data directory now.
    take(used, "a")
    foreign = ["2020-01-01T00-00-00Z", "2020-01-01T00-00-00Z.old", "lost+found", "notes"]
    for name in foreign:
        (runs.into / name).mkdir()
    (runs.into / "2020-01-02T00-00-00Z").write_text("a file")
    (runs.into / "2020-01-03T00-00-00Z").symlink_to(runs.storage)
    mixed = runs.into / "2020-01-04T00-00-00Z.partial"
    (mixed / "mine").mkdir(parents=True)
    before = set(runs.names())
    first = runs.good_one("--keep", "1")
    assert "2020-01-04T00-00-00Z.partial has files that no back-up has" in runs.errors
    second = runs.good_one("--keep", "1")
    assert set(runs.names()) == before | {second.name}
    assert first != second
    assert take(runs.storage, "a") == [b"m0"]


def test_what_an_interrupted_run_has_left_is_removed(runs: Runs) -> None:
    fill(runs.storage, a=1)
    whole = runs.good_one()
    # Killed during the copy, and between the new name and the removal.
    partial = runs.into / "2020-01-01T00-00-00Z.partial"
    shutil.copytree(whole, partial)
    (partial / "FORMAT").unlink()
    shutil.copytree(whole, runs.into / "2020-01-02T00-00-00Z.removing")
    assert BackupSeries(runs.into).good() == [whole]
    new = runs.good_one("--keep", "5")
    assert runs.errors.count("removed what an interrupted run had left") == 2
    assert runs.names() == [whole.name, new.name]


def test_a_kill_between_the_new_name_and_the_removal(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(runs.storage, a=1)
    old = runs.good_one()

    class KilledError(BaseException):
        """As good as SIGKILL: nothing catches it."""

    def die(path: Path) -> None:
        assert path.name == f"{old.name}.removing"
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr("amqp_server.maintenance.backup_series.rmtree", die)
        with pytest.raises(KilledError):
            runs.run("--keep", "1")
    new, removing = sorted(runs.names(), key=len)
    assert removing == f"{old.name}.removing"
    last = runs.good_one("--keep", "2")
    assert runs.names() == [new, last.name]


def test_of_many_damaged_copies_the_oldest_and_the_newest_stay(runs: Runs) -> None:
    fill(runs.storage, a=6)
    good = runs.good_one()
    (segment,) = segments_of(runs.storage, "a")
    damage(segment, chunk_positions(segment)[2] + 60)
    found = []
    for _ in range(4):
        code, _ = runs.run("--keep", "1")
        assert code == 4
        found.append(runs.names())
    first, second, third, fourth = (each[-1] for each in found)
    assert found[1] == [good.name, first, second]
    assert found[2] == [good.name, first, third]
    assert found[3] == [good.name, first, fourth]


def test_a_copy_with_damage_is_kept_apart_and_nothing_is_removed(runs: Runs) -> None:
    fill(runs.storage, a=6)
    made = [runs.good_one().name for _ in range(2)]
    (segment,) = segments_of(runs.storage, "a")
    damage(segment, chunk_positions(segment)[2] + 60)
    code, text = runs.run("--keep", "1")
    assert code == 4
    assert text.startswith("damage ")
    assert "2 good back-ups, 1 with damage, 0 removed" in text
    assert runs.names()[:2] == made
    (damaged,) = runs.names()[2:]
    assert damaged.endswith(".damaged")
    named = text.split()[2].rpartition(".log")[0]
    assert Path(f"{named}.log").is_relative_to(runs.into / damaged)
    assert Path(f"{named}.log").exists()
    # It is never counted, nor removed.
    damage(segment, chunk_positions(segment)[2] + 60)
    last = runs.good_one("--keep", "1")
    assert runs.names() == sorted([damaged, last.name])


def test_two_at_the_same_time_do_not_meet(runs: Runs) -> None:
    fill(runs.storage, a=1)
    old = runs.good_one()
    series = BackupSeries(runs.into)
    with series.hold():
        partial = series.begin()
        partial.mkdir()
        code, text = runs.run("--keep", "1")
        assert (code, text) == (2, "")
        assert f"process {os.getpid()} makes a back-up there now" in runs.errors
        assert runs.names() == [old.name, partial.name]
    runs.good_one("--keep", "2")
    assert partial.name not in runs.names()


def test_a_run_that_is_told_to_end_removes_what_it_has_copied(runs: Runs) -> None:
    fill(runs.storage, a=1)
    # The check waits for the signal.
    program = f"""
import signal, sys
from pathlib import Path
from cli import backup
from cli.main import main

def check(path):
    assert (path / "FORMAT").exists()
    print("ready", flush=True)
    signal.pause()

backup._check = check
sys.exit(main(["backup", "--into", {str(runs.into)!r}, "--storage-path", {str(runs.storage)!r}]))
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
            (name,) = runs.names()
            assert name.endswith(".partial")
            run.send_signal(signal.SIGTERM)
            assert run.wait(HANG_SECONDS) == 130
        finally:
            run.kill()
    assert runs.names() == []


def test_a_full_disk_gets_its_room_back(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(runs.storage, a=1)
    old = runs.good_one()

    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr("amqp_server.maintenance.backup.shutil.copyfile", refuse)
    code, _ = runs.run("--keep", "1")
    assert code == 1
    assert "No space left on device" in runs.errors
    assert runs.names() == [old.name]


def test_an_old_one_that_cannot_be_removed_is_told(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(runs.storage, a=1)
    old = runs.good_one()

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("amqp_server.maintenance.backup_series.rmtree", refuse)
    code, _ = runs.run("--keep", "1")
    assert code == 1
    assert "is good, but an old back-up cannot be removed" in runs.errors
    assert f"{old.name}.removing: Permission denied" in runs.errors


def test_a_clock_that_was_set_back_does_not_remove_the_new_one(runs: Runs) -> None:
    fill(runs.storage, a=1)
    ahead = [runs.into / f"{time.gmtime().tm_year + 1}-01-0{day}T00-00-00Z" for day in (1, 2)]
    first = runs.good_one()
    for path in ahead:
        shutil.copytree(first, path)
    second = runs.good_one("--keep", "2")
    assert f"{ahead[1].name} is from the future" in runs.errors
    future = [path.name for path in ahead]
    assert runs.names() == [first.name, second.name, *future]
    # Otherwise each new one would be the next to go.
    third = runs.good_one("--keep", "2")
    assert runs.names() == [second.name, third.name, *future]


def forbidden_calls(runs: Runs) -> list[tuple[list[str], str]]:
    return [
        ([], "give either DIR or --into DIR"),
        ([str(runs.into), "--into", str(runs.into)], "give either DIR or --into DIR"),
        ([str(runs.into), "--keep", "1"], "--keep does nothing without --into"),
        (["--into", str(runs.into), "--keep", "0"], "0 is not in the range 1<=x<=10000"),
        (["--into", str(runs.into), "--keep", "10001"], "10001 is not in the range"),
        (["--into", str(runs.storage / "backups")], "lies in the data directory"),
        (["--into", str(runs.into), "--storage-path", "missing"], "missing"),
    ]


@pytest.mark.parametrize("number", range(7))
def test_a_call_that_cannot_work_makes_nothing(
    runs: Runs, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    fill(runs.storage)
    before = snapshot(runs.storage)
    words, complaint = forbidden_calls(runs)[number]
    assert main(["backup", "--storage-path", str(runs.storage), *words]) == 2
    assert complaint in capsys.readouterr().err
    assert not runs.into.exists()
    assert snapshot(runs.storage) == before


def test_another_disk_needs_no_warning(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(runs.storage, a=1)
    monkeypatch.setattr("amqp_server.maintenance.backup_run._shares_disk", lambda *_: False)
    new = runs.good_one()
    assert runs.errors == ""
    assert runs.names() == [new.name]
