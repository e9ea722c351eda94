"""Puts drawn bugs in, one after the other, and finds a test that fails."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import Final

from tests.mutants.committed_tree import CommittedTree
from tests.mutants.one_line_bugs import Bug
from tests.mutants.recorded_lines import RecordedLines
from tests.mutants.results import KILLED, SURVIVED, TIMEOUT, Result, Results
from tests.mutants.rooms import Room, namesakes
from tests.mutants.workplace import FAILED, NOTHING_TO_RUN, PASSED, Ended, StoppedError, Workplace

NEAREST_SECONDS_MAX: Final = 60.0
"""Of tests that run the line, as recorded; those from outside follow."""
BOTH_BUILDS: Final = ("tests/parity",)
"""Tests of kernels that need the compiled ones; those of the interpreted one say so by name."""
SURE_SECONDS: Final = 5.0
"""A test that took longer before it failed may have failed because the machine was busy."""


class Hunt:
    """Runs the tests of drawn bugs.

    Args:
        tree: The commit.
        seed: That drew them.
        lines: Which tests run which lines.
        results: Where it is kept what became of each.
    """

    def __init__(
        self, tree: CommittedTree, seed: int, lines: RecordedLines, results: Results
    ) -> None:
        self._tree = tree
        self._seed = seed
        self._lines = lines
        self._results = results

    def run(self, drawn: Sequence[tuple[Room, Bug]], workers: int) -> None:
        """Find out what becomes of each bug of which that is not known."""
        waiting: SimpleQueue[tuple[int, Room, Bug]] = SimpleQueue()
        for number, (room, bug) in enumerate(drawn, 1):
            if self._results.of(bug) is None:
                waiting.put((number, room, bug))
        places = [Workplace(self._tree) for _ in range(min(workers, waiting.qsize()))]
        with ThreadPoolExecutor(workers) as pool:
            working = [pool.submit(self._work, place, waiting, len(drawn)) for place in places]
            try:
                done, _ = wait(working, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
            finally:
                # Also when the user interrupts, or one of the workers fails.
                for place in places:
                    place.stop()

    def _work(
        self, place: Workplace, waiting: SimpleQueue[tuple[int, Room, Bug]], count: int
    ) -> None:
        with place:
            while True:
                try:
                    number, room, bug = waiting.get_nowait()
                except Empty:
                    return
                try:
                    result = self.become(place, room, bug)
                except StoppedError:
                    return
                self._results.add(result)
                by = f" by {result.by}" if result.by else ""
                print(
                    f"{number}/{count} {result.outcome} {bug.path}:{bug.line}: "
                    f"{bug.before} -> {bug.after}{by} ({result.seconds} s)",
                    flush=True,
                )

    def become(self, place: Workplace, room: Room, bug: Bug) -> Result:
        """Return what becomes of one bug."""
        began = time.monotonic()
        tests = self._lines.nearest(bug, NEAREST_SECONDS_MAX)
        count = len(tests)
        ended = self._first_failure(place, bug, tests)
        if ended.code == PASSED:
            outside = (*namesakes(place.root, bug.path), *room.outside)
            tests = [name for name in dict.fromkeys(outside) if (place.root / name).exists()]
            count += len(tests)
            ended = self._first_failure(place, bug, tests, sure_seconds=0.0)
        if ended.code == PASSED and bug.path.endswith("_py.py"):
            with place.with_kernels():
                ended = self._first_failure(place, bug, BOTH_BUILDS, "-k", "interpreted")
        outcome = KILLED
        if ended.code == PASSED:
            outcome = SURVIVED
        elif ended.code is None or ended.is_timeout:
            outcome = TIMEOUT
        file = ended.test.partition("::")[0]
        return Result(
            seed=self._seed,
            commit=self._tree.commit,
            key=bug.key,
            outcome=outcome,
            by=ended.test,
            source=self._tree.contents[bug.path],
            test=self._tree.contents.get(file, ""),
            tests=count,
            seconds=round(time.monotonic() - began, 1),
        )

    def _first_failure(
        self,
        place: Workplace,
        bug: Bug,
        tests: Sequence[str],
        *chosen: str,
        sure_seconds: float = SURE_SECONDS,
    ) -> Ended:
        """Run tests up to the first whose failure is the bug's, and not that of a busy machine."""
        options = [*chosen]
        while tests:
            with place.with_bug(bug):
                ended = place.run(tests, *options)
            if ended.code == NOTHING_TO_RUN:
                break
            if ended.code in (PASSED, None) or self._is_the_bugs(place, ended, tests, sure_seconds):
                return ended
            options.append(f"--deselect={ended.test}")
        return Ended(PASSED)

    def _is_the_bugs(
        self, place: Workplace, ended: Ended, tests: Sequence[str], sure_seconds: float
    ) -> bool:
        if ended.code != FAILED:
            clean = place.run(tests, "--collect-only")
            if clean.code != PASSED:
                raise RuntimeError(f"tests do not start without a bug: {clean.output[-2_000:]}")
            return True
        assert ended.test, f"something failed, but no test: {ended.output[-2_000:]}"
        if ended.seconds < sure_seconds and not ended.is_timeout:
            return True
        return place.run([ended.test]).code == PASSED
