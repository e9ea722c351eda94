"""A copy of the commit, into which bugs are put and in which tests run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.mutants.committed_tree import CommittedTree
from tests.mutants.one_line_bugs import Bug

PLUGINS: Final = Path(__file__).parent / "plugins"
MEMORY_DISK: Final = Path("/dev/shm")
TEST_SECONDS_MAX: Final = 60
"""Of one test that names no limit of its own: a bug that makes it hang costs as much."""
RUN_SECONDS_MAX: Final = 600
END_SECONDS_MAX: Final = 20  # short: the outcome is known by then
PASSED: Final = 0
NOTHING_TO_RUN: Final = 5
FAILED: Final = 1


@dataclass(frozen=True)
class Ended:
    """How a run of tests ended.

    Attributes:
        code: Exit code of pytest; None if it was killed after `RUN_SECONDS_MAX`.
        test: The first that failed; empty if none did.
        seconds: How long the failing part of that test took.
        is_timeout: Whether it failed because it took too long.
        output: Of pytest.
    """

    code: int | None
    test: str = ""
    seconds: float = 0.0
    is_timeout: bool = False
    output: str = ""


class StoppedError(Exception):
    """The place was stopped while tests ran: how they ended says nothing."""


class Workplace:
    """A temporary copy, in memory where there is a file system for that; a context manager.

    Args:
        tree: What is copied.
    """

    def __init__(self, tree: CommittedTree) -> None:
        self._tree = tree
        self._changes = 0
        self._is_stopped = False
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        parent = MEMORY_DISK if MEMORY_DISK.is_dir() else None
        self._temporary = tempfile.TemporaryDirectory(prefix="mutants-", dir=parent)
        self._directory = Path(self._temporary.name)
        self.root = self._directory / "copy"
        self._tree.copy_to(self.root)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._temporary.cleanup()

    @contextmanager
    def with_bug(self, bug: Bug) -> Iterator[None]:
        """Have a bug in the copy meanwhile."""
        path = self.root / bug.path
        source = path.read_text()
        self._write(path, bug.put_into(source))
        try:
            yield
        finally:
            self._write(path, source)

    @contextmanager
    def with_kernels(self) -> Iterator[None]:
        """Have the user's compiled kernels in the copy meanwhile, unused, for tests of both builds.

        They are those of the working tree, without any bug.
        """
        built = [
            self.root / path.relative_to(self._tree.repository)
            for package in self._tree.packages
            for path in (self._tree.repository / package).rglob("_*_c.*.so")
        ]
        for path in built:
            shutil.copyfile(self._tree.repository / path.relative_to(self.root), path)
        try:
            yield
        finally:
            for path in built:
                path.unlink()

    def run(self, tests: Sequence[str], *options: str) -> Ended:
        """Run tests, in this order, up to the first failure.

        Raises:
            StoppedError: Somebody called `stop`.
        """
        failure = self._directory / "failure.json"
        failure.unlink(missing_ok=True)
        code, output = self._pytest(
            tests,
            *("-x", "-p", "first_failure", *options),
            ends_behind=failure,
            MUTANTS_FAILURE=str(failure),
        )
        if failure.exists():
            return Ended(FAILED, output=output, **json.loads(failure.read_text()))
        return Ended(code, output=output)

    def record(self, tests: Sequence[str], packages: Sequence[str]) -> dict[str, dict[str, object]]:
        """Return what each test that passes runs; see the plugin.

        Raises:
            RuntimeError: Pytest did not come to its end.
        """
        record = self._directory / "record.json"
        record.unlink(missing_ok=True)
        _, output = self._pytest(
            tests,
            *("-p", "recorder"),
            MUTANTS_RECORD=str(record),
            MUTANTS_PACKAGES=",".join(packages),
        )
        if not record.exists():
            raise RuntimeError(f"nothing was recorded of {tests}: {output[-2_000:]}")
        recorded: dict[str, dict[str, object]] = json.loads(record.read_text())
        return recorded

    def stop(self) -> None:
        """Let nothing run here any more; from any thread."""
        self._is_stopped = True
        self._kill()

    def _pytest(
        self,
        tests: Sequence[str],
        *options: str,
        ends_behind: Path | None = None,
        **environment: str,
    ) -> tuple[int | None, str]:
        """Return pytest's exit code and output; the code is None if it had to be killed.

        Args:
            tests: What to run.
            options: Of pytest.
            ends_behind: Once this file is there, pytest has `END_SECONDS_MAX` to end: with the
                bug it may hang when all is known.
            environment: Variables in addition to those of this process.
        """
        if self._is_stopped:
            raise StoppedError
        names = self._directory / "tests.txt"
        names.write_text("\n".join(tests))
        temporary = self._directory / "tmp"
        temporary.mkdir(exist_ok=True)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AMQP_", "HYPOTHESIS_", "COVERAGE_", "COV_", "PYTEST_"))
        }
        paths = os.pathsep.join((str(self.root), str(PLUGINS)))
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *(f"--timeout={TEST_SECONDS_MAX}", f"--basetemp={temporary / 'pytest'}"),
                *options,
                f"@{names}",
            ],
            cwd=self.root,
            env={
                **inherited,
                "AMQP_SERVER_PURE_PYTHON": "1",
                "PYTHONPATH": paths,
                "TMPDIR": str(temporary),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output = self._output_of(self._process, ends_behind)
        finally:
            self._kill()
        if self._is_stopped:
            raise StoppedError
        return (None, "") if output is None else (self._process.returncode, output)

    def _output_of(self, process: subprocess.Popen[str], ends_behind: Path | None) -> str | None:
        """Return what a process has said when it ends; None if it does not end in time."""
        seconds_left = RUN_SECONDS_MAX
        while seconds_left > 0:
            try:
                return process.communicate(timeout=END_SECONDS_MAX)[0]
            except subprocess.TimeoutExpired:
                seconds_left -= END_SECONDS_MAX
            if process.poll() is not None:
                # What it started, and left behind, still holds its output open.
                self._kill()
            elif ends_behind is not None and ends_behind.exists():
                return None
        return None

    def _kill(self) -> None:
        """Kill pytest, if it runs, and all that it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _write(self, path: Path, source: str) -> None:
        """Write a module so that no bytecode of another version of it is taken for this one."""
        path.write_text(source)
        self._changes += 1
        os.utime(path, (self._changes, self._changes))
