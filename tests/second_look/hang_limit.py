"""The limit of time of a test, which guards against hangs: it ends the process of the test.

pytest-timeout raises an exception in the test that hangs. What the test has open at that place is
then told of by the next test, Hypothesis calls the test flaky, and a server that many tests share
hangs in each of them. So a worker of pytest-xdist ends as a whole, with all that it started, and
another one takes its place. The report has the stacks of all threads.

A run without workers keeps the exception of pytest-timeout.
"""

from __future__ import annotations

import faulthandler
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tests.second_look.left_over import kill_left_over

_NOTES: Final = "hang_limit_notes"


class WorkerNode(Protocol):
    """A worker of pytest-xdist, seen from the process that gives it tests.

    Attributes:
        workerinput: What the worker gets at its start.
        gateway: Has the name of the worker as `id`.
    """

    workerinput: dict[str, Any]
    gateway: Any


class _Settings(Protocol):
    timeout: float


class HangLimit:
    """Ends this worker when a test takes longer than it may; a plugin of a worker.

    Args:
        note: File that the stacks are written to; made now, and empty until then.
    """

    def __init__(self, note: Path) -> None:
        self._note = note.open("wb", buffering=0)
        self._seconds = 0.0

    def pytest_timeout_set_timer(self, settings: _Settings) -> bool:
        """Begin to count the time of a test, instead of pytest-timeout."""
        self._seconds = settings.timeout
        self._arm()
        return True

    def pytest_timeout_cancel_timer(self) -> bool:
        """Go on: pytest-timeout asks for the end at each exception, before the teardown."""
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Count anew, because pytest has just ended it."""
        if self._seconds:
            self._arm()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Count no more when all of the test is done."""
        try:
            return (yield)
        finally:
            self._seconds = 0.0
            faulthandler.cancel_dump_traceback_later()

    def _arm(self) -> None:
        # A thread of C code, which a test that never lets go of the interpreter cannot stop.
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._note)


class StruckLimits:
    """Tells a limit that struck from a worker that crashed; a plugin of what starts the workers."""

    def __init__(self) -> None:
        self._notes = tempfile.TemporaryDirectory(prefix="hang-limits-")

    def pytest_unconfigure(self) -> None:
        """Remove the notes."""
        self._notes.cleanup()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        """Tell a new worker where its note goes."""
        node.workerinput[_NOTES] = self._notes.name

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerNode, error: object) -> None:
        """Kill what a worker has left behind that did not end by itself."""
        if error:
            kill_left_over(
                {
                    "PYTEST_XDIST_WORKER": node.workerinput["workerid"],
                    "PYTEST_XDIST_TESTRUNUID": node.workerinput["testrunuid"],
                }
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: pytest.TestReport) -> None:
        """Put the stacks into the report of a test whose limit struck, and mark it."""
        node: WorkerNode = report.node  # set by pytest-xdist
        note = Path(self._notes.name, node.workerinput["workerid"])
        stacks = note.read_text(errors="replace") if note.exists() else ""
        if stacks:
            path, _, name = report.nodeid.partition("::")
            report.location = (path, None, name)
            report.longrepr = f"the limit of time struck: {stacks}"
            report.has_struck_limit = True  # type: ignore[attr-defined]  # ours


def has_struck_limit(report: pytest.TestReport) -> bool:
    """Return whether a report of a failure is that of a limit that struck."""
    return getattr(report, "has_struck_limit", False)


def is_of_crashed_worker(report: pytest.TestReport) -> bool:
    """Return whether a report is of a test whose worker died, and not by its limit."""
    return str(report.when) == "???" and not has_struck_limit(report)


def register_hang_limit(config: pytest.Config) -> None:
    """Use this limit in the workers of pytest-xdist, if there are any."""
    workerinput: dict[str, Any] | None = getattr(config, "workerinput", None)
    if workerinput is None:
        config.pluginmanager.register(StruckLimits())
    elif _NOTES in workerinput:
        note = Path(workerinput[_NOTES], workerinput["workerid"])
        config.pluginmanager.register(HangLimit(note))
