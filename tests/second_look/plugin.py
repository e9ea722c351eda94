"""The second look at tests that failed: `pytest --second-look`.

A test that failed for a reason of the machine hides what is wrong and makes the run worthless. So
the few that failed are run again before the summary: alone, one at a time. A test that passes then
is *unsteady*: it is named, with both outputs, and is no failure. More than two are.

No second look is given to tests whose failure may be a lost message, unless their limit of time
struck; nor to a test whose worker crashed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Final

import pytest

from tests.second_look.hang_limit import (
    has_struck_limit,
    is_of_crashed_worker,
    register_hang_limit,
)
from tests.second_look.left_over import kill_left_over

FAILED_MAX: Final = 5
"""More failures than that are no accident: none of them is looked at again."""
UNSTEADY_MAX: Final = 2
SECONDS_MAX: Final = 600.0
"""Of all second looks together."""
LOOKED_AT_ONCE: Final = frozenset({"crash", "faults", "moving", "oracle", "statemachine"})
"""Folders in which one failure is a lost message until the opposite is shown."""
_MARK: Final = "SECOND_LOOK"


@dataclass(frozen=True)
class Look:
    """What a second look has found.

    Attributes:
        test: Node id of the test.
        has_passed: Whether it passed.
        output: Of pytest; or why there was no second look.
        is_done: Whether there was one.
        reason: Why the test failed at first, in a line.
    """

    test: str
    has_passed: bool
    output: str
    is_done: bool = True
    reason: str = ""


class SecondLook:
    """Looks at failed tests again when all have run, and says what it found; a plugin.

    Args:
        config: Of the run; its terminal reporter has the outcomes.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reported: set[str] = set()
        self._looks: list[Look] = []
        self._refusal = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which tests have run."""
        self._reported.add(report.nodeid)

    # Last, so that the workers have ended.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Look again, and correct the outcomes and the exit code."""
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        failed = self._failed_tests()
        if len(failed) > FAILED_MAX:
            self._refusal = f"{len(failed)} tests failed, and at most {FAILED_MAX} are run again"
            return
        deadline = time.monotonic() + SECONDS_MAX
        self._looks = [self._look(test, reports, deadline) for test, reports in failed.items()]
        unsteady = {look.test for look in self._looks if look.has_passed}
        if len(unsteady) > UNSTEADY_MAX:
            self._refusal = f"{len(unsteady)} tests are unsteady, and at most {UNSTEADY_MAX} may be"
            return
        self._correct_outcomes(unsteady)
        left = session.testscollected - len(self._reported)
        if left > 0:
            self._refusal = f"{left} tests were not run"
        elif not self._stats("failed") and not self._stats("error"):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what the second looks have found, with both outputs of what is unsteady."""
        if not self._looks and not self._refusal:
            return
        write = terminalreporter.write_line
        terminalreporter.summary_failures_combined("unsteady", "FAILED AT FIRST", style="long")
        terminalreporter.write_sep("=", "second look")
        for look in self._looks:
            if look.is_done:
                terminalreporter.write_sep("_", look.test)
                # Not at the beginning of lines: this run has one closing line.
                write(indent(look.output, "| "))
        for look in self._looks:
            if look.has_passed:
                # A log that keeps only these lines shall tell what is to be mended.
                write(f"unsteady: {look.test} - {look.reason}")
            elif look.is_done:
                write(f"failed twice: {look.test}")
            else:
                write(f"not run again: {look.test}: {look.output}")
        if self._refusal:
            write(f"this run is red: {self._refusal}")

    @property
    def _reporter(self) -> pytest.TerminalReporter:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return reporter

    def _stats(self, outcome: str) -> list[pytest.TestReport]:
        """Return the reports with an outcome that are those of tests or of collecting them."""
        reports: list[pytest.TestReport] = self._reporter.stats.get(outcome, [])
        return reports

    def _failed_tests(self) -> dict[str, list[pytest.TestReport]]:
        failed: dict[str, list[pytest.TestReport]] = {}
        for report in (*self._stats("failed"), *self._stats("error")):
            # An error of collection is no test: it stays as it is.
            if isinstance(report, pytest.TestReport):
                failed.setdefault(report.nodeid, []).append(report)
        return failed

    def _look(self, test: str, reports: list[pytest.TestReport], deadline: float) -> Look:
        folders = LOOKED_AT_ONCE.intersection(Path(test.partition("::")[0]).parts)
        if any(map(is_of_crashed_worker, reports)):
            return Look(test, has_passed=False, output="its worker crashed", is_done=False)
        if folders and not any(map(has_struck_limit, reports)):
            reason = f"one failure in {min(folders)}/ counts"
            return Look(test, has_passed=False, output=reason, is_done=False)
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            reason = f"all of the {SECONDS_MAX:.0f} seconds are over"
            return Look(test, has_passed=False, output=reason, is_done=False)
        self._reporter.write_line(f"\nrunning again, alone: {test}")
        has_passed, output = _run_alone(self._config.rootpath, test, seconds)
        return Look(test, has_passed, output, reason=reason_of(reports[0]))

    def _correct_outcomes(self, unsteady: set[str]) -> None:
        """Move the reports of tests that are unsteady to an outcome of their own, one a test."""
        stats = self._reporter.stats
        moved: dict[str, pytest.TestReport] = {}
        for outcome in ("failed", "error", "passed"):
            for report in self._stats(outcome):
                if report.nodeid in unsteady:
                    moved.setdefault(report.nodeid, report)
            left = [report for report in self._stats(outcome) if report.nodeid not in unsteady]
            if left:
                stats[outcome] = left
            else:
                stats.pop(outcome, None)
        if moved:
            stats["unsteady"] = list(moved.values())


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test failed, in a line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(report.longrepr if crash is None else crash.message)
    return message.partition("\n")[0]


def _run_alone(root: Path, test: str, seconds_max: float) -> tuple[bool, str]:
    """Run one test in a process of its own; return whether it passed, and pytest's output."""
    mark = uuid.uuid4().hex
    command = [
        *(sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-n0"),
        test,
    ]
    process = subprocess.Popen(
        command,
        cwd=root,
        env={**os.environ, _MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        output, _ = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        kill_left_over({_MARK: mark})
        output, _ = process.communicate()
        return False, f"{output}\nended after {seconds_max:.0f} s"
    finally:
        kill_left_over({_MARK: mark})
    return process.returncode == pytest.ExitCode.OK, output


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--second-look",
        action="store_true",
        help=f"run up to {FAILED_MAX} failed tests again, alone, before the summary",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register what the process needs: of several, that which gives tests to the others looks."""
    register_hang_limit(config)
    if config.getoption("second_look") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondLook(config))
