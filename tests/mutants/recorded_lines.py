"""Which tests run a line, the nearest first; recorded once and kept while nothing of it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from tests.mutants.committed_tree import CommittedTree
from tests.mutants.one_line_bugs import Bug
from tests.mutants.workplace import Workplace

FILES_AT_ONCE: Final = 8
"""Test files in one recording: what an interruption loses."""


@dataclass(frozen=True)
class RecordedTest:
    """What one test ran.

    Attributes:
        name: As pytest calls it.
        seconds: How long it took, recorded.
        lines: Of each file, by path: a bit for each line.
    """

    name: str
    seconds: float
    lines: dict[str, int]


class RecordedLines:
    """The tests of a commit, by the lines that they run in their own process.

    Args:
        directory: Where recordings are kept, a file for each file of tests.
        tree: The commit.
        packages: Folders of the code.
    """

    def __init__(self, directory: Path, tree: CommittedTree, packages: Sequence[str]) -> None:
        self._directory = directory
        self._tree = tree
        self._packages = packages
        self._all: list[RecordedTest] = []
        self._by_path: dict[str, list[RecordedTest]] = {}
        self._texts: dict[str, str] = {}

    def record(self, workplace: Workplace, files: Iterable[str]) -> Iterator[str]:
        """Record files of tests of which nothing, or something else, is recorded; tell of each."""
        self._directory.mkdir(parents=True, exist_ok=True)
        outdated = [file for file in files if not self._is_current(file)]
        for start in range(0, len(outdated), FILES_AT_ONCE):
            some = outdated[start : start + FILES_AT_ONCE]
            yield f"recording lines, files of tests to go: {len(outdated) - start}"
            self.keep(some, workplace.record(some, self._packages))

    def keep(self, files: Iterable[str], tests: dict[str, Any]) -> None:
        """Keep what was recorded of files of tests."""
        for file in files:
            of_file = {name: each for name, each in tests.items() if _file(name) == file}
            paths = {file, *(path for each in of_file.values() for path in each["lines"])}
            contents = {path: self._tree.contents[path] for path in sorted(paths)}
            self._place(file).write_text(json.dumps({"contents": contents, "tests": of_file}))

    def load(self, root: Path, files: Iterable[str]) -> None:
        """Take over what is recorded of files of tests, of which a copy lies below `root`."""
        for file in files:
            self._texts[file] = (root / file).read_text()
            for name, each in json.loads(self._place(file).read_text())["tests"].items():
                lines = {path: int(bits, 16) for path, bits in each["lines"].items()}
                test = RecordedTest(name, each["seconds"], lines)
                self._all.append(test)
                for path in lines:
                    self._by_path.setdefault(path, []).append(test)

    def nearest(self, bug: Bug, seconds_max: float) -> list[str]:
        """Return tests that run the line of a bug, the nearest first, as many as fit.

        Without such tests: those that run something of the function, or of the file if the line
        is in no function; without those, all. Near is a test that imports the module or has its
        name, then one of the same folder; among equals the shortest. The nearest all fit.
        """
        tests = self._by_path.get(bug.path, [])
        first, last = bug.scope
        in_scope = ((1 << min(last, first + 10_000) + 1) - 1) >> first << first
        running = [test for test in tests if test.lines[bug.path] & 1 << bug.line]
        running = running or [test for test in tests if test.lines[bug.path] & in_scope]
        chosen: list[str] = []
        seconds = 0.0
        ranked = sorted((self._rank(test, bug.path), test.name) for test in running or self._all)
        for (distance, of_test), name in ranked:
            seconds += of_test
            if distance and seconds > seconds_max:
                break
            chosen.append(name)
        return chosen

    def _rank(self, test: RecordedTest, path: str) -> tuple[int, float]:
        """Return how far a test is from a module, and how long it takes."""
        file, module = PurePath(_file(test.name)), PurePath(path)
        dotted = re.escape(".".join(module.with_suffix("").parts))
        is_named = module.stem.removeprefix("_").removesuffix("_py") in file.stem
        if is_named or re.search(rf"\b{dotted}\b", self._texts[str(file)]):
            return 0, test.seconds
        return 1 if set(file.parts[:-1]) & set(module.parts[:-1]) else 2, test.seconds

    def _is_current(self, file: str) -> bool:
        try:
            kept: dict[str, str] = json.loads(self._place(file).read_text())["contents"]
        except FileNotFoundError:
            return False
        return all(self._tree.contents.get(path) == content for path, content in kept.items())

    def _place(self, file: str) -> Path:
        return self._directory / f"{file.replace('/', '.')}.json"


def _file(test: str) -> str:
    return test.partition("::")[0]
