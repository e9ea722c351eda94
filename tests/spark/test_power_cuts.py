"""Exactly once, wherever the power goes: in any step of an export to a directory, or after it."""

import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.files.file_task import FileTask, TaskResult, write_files
from appendlog.spark.exporting.stores.local_store import LocalStore
from tests.faults.faulty_filesystem import StoppedError
from tests.spark.builders import plain_messages, store_queue
from tests.spark.commits import destination, export, visible_offsets
from tests.spark.local_exports import LocalRunner, plan, run_all
from tests.spark.plain_reader import expected_rows, written_rows
from tests.spark.powered_output import PoweredOutput

FIRST_END, END = 3, 7


@pytest.mark.parametrize("seed", [None, 1])
def test_a_power_cut_at_any_step_leaves_each_export_whole_or_undone(
    tmp_path: Path, seed: int | None
) -> None:
    for stop_at in range(1000):
        root = tmp_path / str(stop_at)
        root.mkdir()
        files = PoweredOutput(root, stop_at, StoppedError())
        done = 0
        with suppress(StoppedError):
            for end in (FIRST_END, END):
                export(destination(LocalStore(root / "out", files)), end)
                done = end
        files.power_cut(None if seed is None else random.Random(f"{seed} {stop_at}"))

        to = destination(LocalStore(root / "out"))
        covered = to.last_end() or 0
        assert covered in {0, FIRST_END, END}
        assert covered >= done, "an export that was over is gone"
        assert visible_offsets(root / "out") == list(range(covered))
        export(to, END)
        assert visible_offsets(root / "out") == list(range(END))
        shutil.rmtree(root)
        if done == END:
            assert stop_at > 50, "files, manifests and moves have more steps"
            return
    raise AssertionError


class _NoCopies(LocalRunner):
    """Runs tasks as they are: the file system in them is one, and has to see all of them."""

    def run(self, tasks: Sequence[FileTask], on_done: Callable[[int], None]) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        return [write_files(task) for task in tasks]


def test_a_power_cut_after_an_export_leaves_every_row(tmp_path: Path) -> None:
    stored = store_queue(tmp_path / "data", segment_bytes=8192)
    stored.append(plain_messages(200))
    root = tmp_path / "outputs"
    root.mkdir()
    files = PoweredOutput(root)
    to = FilesDestination(LocalStore(root / "out", files), stored.location)

    (outcome,) = run_all([QueueExport(plan(stored, to), to)], runner=_NoCopies())
    files.power_cut()

    assert outcome.error is None
    assert written_rows(root / "out") == expected_rows(stored.location)
    stored.close()


def test_folders_that_another_process_has_just_made_are_on_the_disk_with_a_file(
    tmp_path: Path,
) -> None:
    files = PoweredOutput(tmp_path)
    root = tmp_path / "out"
    root.mkdir()
    for folder in ("a", "a/b", "c", "c/d"):
        # That process has made it, and has yet to sync.
        files.mkdir(root / folder)
    store = LocalStore(root, files)
    store.create("a/b/created", b"data")
    store.create("a/b/moved", b"data")
    store.move("a/b/moved", "c/d/moved")
    files.power_cut()
    assert [file.path for file in LocalStore(root).list("")] == ["a/b/created", "c/d/moved"]
