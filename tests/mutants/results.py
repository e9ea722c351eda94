"""What became of each bug, kept as lines of JSON so that a run can be interrupted."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from tests.mutants.committed_tree import CommittedTree
from tests.mutants.one_line_bugs import Bug

KILLED: Final = "killed"
TIMEOUT: Final = "timeout"
SURVIVED: Final = "survived"
OUTCOMES: Final = (KILLED, TIMEOUT, SURVIVED)


@dataclass(frozen=True)
class Result:
    """What became of one bug.

    Attributes:
        seed: That drew it.
        commit: That it was put into.
        key: Which one; see `Bug`.
        outcome: One of this module's.
        by: Test that failed; empty if none did, or the code could not even be imported.
        source: Git's name of the content of the file.
        test: The same of the test's file; empty without a test.
        tests: How many were to be run.
        seconds: How long that took.
    """

    seed: int
    commit: str
    key: str
    outcome: str
    by: str
    source: str
    test: str
    tests: int
    seconds: float


class Results:
    """The results of a seed.

    Args:
        file: Where they are kept; made when there is none.
        tree: The commit that bugs are put into now.
    """

    def __init__(self, file: Path, tree: CommittedTree) -> None:
        self._file = file
        self._tree = tree
        self._lock = Lock()
        self._by_key: dict[str, Result] = {}
        if file.exists():
            for line in file.read_text().splitlines():
                result = Result(**json.loads(line))
                self._by_key[result.key] = result

    def of(self, bug: Bug) -> Result | None:
        """Return what became of a bug, as far as that still says something about this commit.

        A test that failed in an earlier commit fails in this one, if neither its file nor that of
        the bug has changed. What survived earlier may meet a new test.
        """
        result = self._by_key.get(bug.key)
        if result is None or result.source != self._tree.contents[bug.path]:
            return None
        if result.commit == self._tree.commit:
            return result
        file = result.by.partition("::")[0]
        # Without a test it broke the import, or hung: so it does again.
        is_same_test = not file or self._tree.contents.get(file) == result.test
        return result if is_same_test and result.outcome != SURVIVED else None

    def add(self, result: Result) -> None:
        """Keep one; from any thread."""
        with self._lock, self._file.open("a") as file:
            self._by_key[result.key] = result
            file.write(json.dumps(asdict(result)) + "\n")
