"""Several exports into one output at once: every offset once, whoever wins."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.stores.local_store import LocalStore, OutputFiles
from appendlog.spark.exporting.stores.store import StoredFile
from tests.spark.commits import destination, export, plan, visible_offsets
from tests.spark.racing_exports import ROUND_OFFSETS, ROUNDS

FIRST_END, END = 3, 10
EVERYTHING = 1000


class Turns:
    """Lets threads take steps only when they are told to."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}
        self._changed = threading.Condition()
        self._halted: set[str] = set()
        self._ended: set[str] = set()

    def take(self, name: str) -> None:
        """Wait for a step; called by the threads."""
        with self._changed:
            while not self._steps.get(name):
                self._halted.add(name)
                self._changed.notify_all()
                self._changed.wait()
            self._steps[name] -= 1

    def end(self, name: str) -> None:
        """Take no more steps."""
        with self._changed:
            self._ended.add(name)
            self._changed.notify_all()

    def let(self, name: str, steps: int) -> int:
        """Let a thread take so many steps, or fewer if it ends; return how many it took."""
        with self._changed:
            self._steps[name] = steps
            self._halted.discard(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: name in self._halted | self._ended)
            return steps - self._steps[name]


class UnsyncedFiles(OutputFiles):
    """Leaves to the kernel when bytes get to the disk: no power fails here."""

    def fsync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


def unsynced(root: Path) -> LocalStore:
    return LocalStore(root, UnsyncedFiles())


class TurnStore(LocalStore):
    """A directory without locks, each operation of which waits for its turn."""

    def __init__(self, root: Path, turns: Turns, name: str) -> None:
        super().__init__(root, UnsyncedFiles())
        self.turns, self.name = turns, name

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        yield False

    def read(self, path: str) -> bytes:
        self.turns.take(self.name)
        return super().read(path)

    def create(self, path: str, data: bytes) -> None:
        self.turns.take(self.name)
        super().create(path, data)

    def list(self, folder: str) -> list[StoredFile]:
        self.turns.take(self.name)
        return super().list(folder)

    def move(self, source: str, target: str) -> None:
        self.turns.take(self.name)
        super().move(source, target)

    def delete(self, path: str) -> None:
        self.turns.take(self.name)
        super().delete(path)

    @contextmanager
    def open_new(self, path: str) -> Iterator[BinaryIO]:
        self.turns.take(self.name)
        with super().open_new(path) as file:
            yield file


class Race:
    """Two exports of overlapping ranges, in threads that only move when told to.

    Args:
        root: Of the output.
        first_end: End of what it has before; 0: nothing, not even a manifest.
    """

    def __init__(self, root: Path, first_end: int) -> None:
        self.root = root
        self.turns = Turns()
        self.outcomes: dict[str, bool | Exception] = {}
        export(destination(unsynced(root)), first_end)
        self._threads = [
            self._start("a", lambda to: export(to, END, file_rows=4)),
            self._start("b", lambda to: export(to, END + 2, file_rows=5)),
        ]

    def _start(self, name: str, do: Callable[..., bool]) -> threading.Thread:
        def run() -> None:
            to = destination(TurnStore(self.root, self.turns, name))
            try:
                self.outcomes[name] = do(to)
            except Exception as error:  # noqa: BLE001 - judged by the test
                self.outcomes[name] = error
            self.turns.end(name)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def finish(self) -> None:
        for name in "ab":
            self.turns.let(name, EVERYTHING)
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        failed = [each for each in self.outcomes.values() if not isinstance(each, bool)]
        assert len(failed) < 2
        assert all(isinstance(error, OutputChangedError) for error in failed), failed
        seen = visible_offsets(self.root)
        assert sorted(seen) in (list(range(END)), list(range(END + 2)))
        to = destination(unsynced(self.root))
        export(to, END + 2)
        assert sorted(visible_offsets(self.root)) == list(range(END + 2))
        left = [file.path for file in unsynced(self.root).list("") if "/job-" in file.path]
        assert not left


@pytest.mark.parametrize("first_end", [0, FIRST_END])
def test_two_exports_may_meet_at_every_step(tmp_path: Path, first_end: int) -> None:
    """A takes some steps, then B some, then A ends, then B."""
    races = lost = 0
    steps = 0
    while True:
        for others in range(EVERYTHING):
            race = Race(tmp_path / f"{steps}-{others}", first_end)
            taken = race.turns.let("a", steps)
            others_taken = race.turns.let("b", others)
            seen = visible_offsets(race.root)
            assert len(seen) == len(set(seen))
            race.finish()
            race.check()
            races += 1
            lost += sum(not isinstance(each, bool) for each in race.outcomes.values())
            if others_taken < others:
                break
        if taken < steps:
            break
        steps += 1
    assert races > 100
    assert lost > 50


@pytest.mark.parametrize("kind", ["locks", "nolocks"])
def test_processes_that_export_the_same_win_each_range_once(tmp_path: Path, kind: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.racing_exports", str(tmp_path / "out"), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = [[int(part) for part in process.communicate()[0].split()] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(won for won, _ in counts) == ROUNDS
    store = LocalStore(tmp_path / "out")
    assert sorted(visible_offsets(store.root)) == list(range(ROUNDS * ROUND_OFFSETS))
    manifests = Manifests(store, "orders")
    assert manifests.read(manifests.survey().manifests - 1).total.exports == ROUNDS


class OvertakenStore(LocalStore):
    """Another export commits between a look at the manifests and one at the files."""

    def __init__(self, root: Path, overtake: Callable[[], object]) -> None:
        super().__init__(root)
        self._overtake: Callable[[], object] | None = overtake

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        yield False

    def list(self, folder: str) -> list[StoredFile]:
        if folder == "queue=orders" and self._overtake is not None:
            overtake, self._overtake = self._overtake, None
            overtake()
        return super().list(folder)


def test_files_of_a_first_commit_are_not_those_of_an_earlier_version(tmp_path: Path) -> None:
    """Whoever saw no manifest, and then sees files, has met a commit."""
    to = destination(LocalStore(tmp_path))
    store = OvertakenStore(tmp_path, lambda: export(to, END))
    assert destination(store).last_end() == END


def test_an_export_that_begins_beside_a_first_commit_adopts_nothing(tmp_path: Path) -> None:
    job = plan(destination(LocalStore(tmp_path)), END)
    to = destination(LocalStore(tmp_path))
    late = destination(OvertakenStore(tmp_path, lambda: export(to, END)))
    with pytest.raises(OutputChangedError), late.begin(job):
        pass
    manifests = Manifests(LocalStore(tmp_path), "orders")
    assert manifests.survey().manifests == 1
    assert manifests.read(0).kind == "export"
    assert sorted(visible_offsets(tmp_path)) == list(range(END))
