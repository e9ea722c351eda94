"""A program: an export that is killed at each of its steps, again and again, and what is left.

A process of its own, without threads, so that it can fork: `python -m tests.spark.killed_exports
DIRECTORY` prints how many steps there were.
"""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from appendlog.spark.exporting.stores.local_store import LocalStore, OutputFiles
from tests.spark.commits import destination, export, visible_offsets

KILLED = 9
FIRST_END, END = 4, 11
SECOND_KILLS = 17

_T = TypeVar("_T")


class MortalFiles(OutputFiles):
    """Ends the process in place of a step, without any cleaning up."""

    def __init__(self, steps: int) -> None:
        self.steps_left = steps

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        return self._step(lambda: super(MortalFiles, self).open(path, flags, mode))

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        half = [memoryview(b"".join(buffers))[: sum(map(len, buffers)) // 2]]
        if self.steps_left == 0:
            super().pwritev(descriptor, half, position, sync)
        return self._step(
            lambda: super(MortalFiles, self).pwritev(descriptor, buffers, position, sync)
        )

    def fsync(self, descriptor: int) -> None:
        self._step(lambda: super(MortalFiles, self).fsync(descriptor))

    def link(self, source: Path, target: Path) -> None:
        self._step(lambda: super(MortalFiles, self).link(source, target))

    def rename(self, source: Path, target: Path) -> None:
        self._step(lambda: super(MortalFiles, self).rename(source, target))

    def unlink(self, path: Path) -> None:
        self._step(lambda: super(MortalFiles, self).unlink(path))

    def mkdir(self, path: Path, mode: int = 0o750) -> None:
        self._step(lambda: super(MortalFiles, self).mkdir(path, mode))

    def rmdir(self, path: Path) -> None:
        self._step(lambda: super(MortalFiles, self).rmdir(path))

    def sync_directory(self, path: Path) -> None:
        self._step(lambda: super(MortalFiles, self).sync_directory(path))

    def _step(self, do: Callable[[], _T]) -> _T:
        if self.steps_left == 0:
            os._exit(KILLED)
        self.steps_left -= 1
        return do()


def export_killed_at(root: Path, step: int) -> bool:
    """Export in a process that dies before a step; return whether it lived to the end."""
    child = os.fork()
    if child == 0:
        try:
            export(destination(LocalStore(root, MortalFiles(step))), END)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), status
    return status == 0


def check_between(root: Path, least: int) -> None:
    """Whatever a plain reader sees is right: whole files, no offset twice, nothing gone."""
    seen = visible_offsets(root)
    assert len(seen) == len(set(seen)), seen
    assert set(seen) <= set(range(END)), seen
    assert set(seen) >= set(range(least)), seen


def check_after(root: Path) -> None:
    """Another export completes it: every offset once, and nothing else is left."""
    to = destination(LocalStore(root))
    export(to, END)
    assert to.covered() == [(0, END)]
    assert visible_offsets(root) == list(range(END))
    export(to, END + 1)
    left = [file.path for file in LocalStore(root).list("") if "/job-" in file.path]
    assert not left, left


def main(root: Path) -> None:
    """Kill at every step; of what is left, kill the next export at some of its steps."""
    begin, work = root / "begin", root / "work"
    for least in (0, FIRST_END):
        if least:
            export(destination(LocalStore(begin)), least)
        step, is_killed = 0, True
        while is_killed:
            step += 1
            for second in range((step - 1) % SECOND_KILLS, 200, SECOND_KILLS):
                shutil.rmtree(work, ignore_errors=True)
                if least:
                    shutil.copytree(begin, work)
                is_killed = not export_killed_at(work, step - 1)
                check_between(work, least)
                is_over = export_killed_at(work, second)
                check_between(work, least)
                check_after(work)
                if is_over:
                    break
        print(step)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
