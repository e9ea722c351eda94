"""What becomes of a test that fails, hangs or crashes, tried on small suites."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_look.left_over import kill_left_over

REPOSITORY = Path(__file__).parents[2]
CONFTEST = """\
from pathlib import Path

import pytest

pytest_plugins = ("tests.second_look.plugin",)

@pytest.fixture
def is_first(request):
    seen = Path(__file__).parent / request.node.nodeid.replace("/", "-")
    is_first = not seen.exists()
    seen.touch()
    return is_first
"""
# A suite needs two plugins of all that are installed; the others cost each process 0.4 s of a core.
SETTINGS = """\
[pytest]
addopts = --import-mode=importlib -p xdist.plugin -p pytest_timeout
"""
RIGHT = """
def test_right():
    pass
"""
WRONG = """
def test_wrong():
    assert 1 == 2
"""
UNSTEADY = """
def test_unsteady(is_first):
    print("this is said")
    assert not is_first
"""
HANGING = """
import pytest, time

@pytest.mark.timeout(1)
def test_hanging():
    time.sleep(1_000)
"""
HANGING_ONCE = """
import pytest, subprocess, time
from pathlib import Path

SEEN = Path(__file__).with_suffix(".seen")

@pytest.mark.timeout(300 if SEEN.exists() else 1)
def test_hanging_once():
    if not SEEN.exists():
        SEEN.write_text(str(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid))
        time.sleep(1_000)
"""
CRASHING = """
import os

def test_crashing(is_first):
    if is_first:
        os._exit(3)
"""
TEARDOWN = """
import pytest

@pytest.fixture
def unsteady(is_first):
    yield
    assert not is_first

def test_ended_badly(unsteady):
    pass
"""


class Suite:
    """A folder with tests that are run as `make test` runs ours.

    Args:
        root: An empty folder.
        sources: Files with tests, by their path.
    """

    def __init__(self, root: Path, **sources: str) -> None:
        self.root = root
        for name, source in {"conftest": CONFTEST, **sources}.items():
            path = root / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        (root / "pytest.ini").write_text(SETTINGS)
        self.code = 0
        self.output = ""

    def run(self) -> Suite:
        """Run it, and keep exit code and output."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
        }
        command = [sys.executable, "-m", "pytest", "-ra", "--second-look"]
        done = subprocess.run(
            [*command, "--numprocesses", "2", "--dist", "worksteal", "--max-worker-restart", "5"],
            cwd=self.root,
            env={
                **inherited,
                "PYTHONPATH": str(REPOSITORY),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.code, self.output = done.returncode, done.stdout
        return self

    @property
    def totals(self) -> str:
        """The last line, without its time."""
        last = self.output.rstrip().splitlines()[-1]
        found = re.fullmatch(r"=+ (.*) in [0-9.]+s( \([0-9:]+\))? =+", last)
        assert found is not None, self.output
        return found[1]

    def lines(self, kind: str) -> list[str]:
        """What follows behind each line that begins with these words."""
        return re.findall(rf"^{kind}: (.*)$", self.output, re.MULTILINE)


def test_five_kinds_of_tests_have_five_outcomes(tmp_path: Path) -> None:
    suite = Suite(
        tmp_path,
        test_right=RIGHT,
        test_wrong=WRONG,
        test_unsteady=UNSTEADY,
        crash__test_lost=UNSTEADY,
        test_hanging=HANGING,
        crash__test_slow=HANGING_ONCE,
    ).run()

    assert suite.code == pytest.ExitCode.TESTS_FAILED, suite.output
    assert suite.totals == "3 failed, 1 passed, 2 unsteady"
    assert sorted(suite.lines("unsteady")) == [
        "crash/test_slow.py::test_hanging_once - the limit of time struck: Timeout (0:00:01)!",
        "test_unsteady.py::test_unsteady - assert not True",
    ]
    assert sorted(suite.lines("failed twice")) == [
        "test_hanging.py::test_hanging",
        "test_wrong.py::test_wrong",
    ]
    assert suite.lines("not run again") == [
        "crash/test_lost.py::test_unsteady: one failure in crash/ counts"
    ]
    # Where it hung, and both outputs of what is unsteady.
    assert re.search(r"line \d+ in test_hanging_once$", suite.output, re.MULTILINE)
    said = re.findall(r"^(?:\| )?this is said$", suite.output, re.MULTILINE)
    assert sorted(said) == ["this is said", "this is said", "| this is said"]
    assert len(re.findall(r"^=.* in [0-9.]+s", suite.output, re.MULTILINE)) == 1


def test_what_a_hanging_test_has_started_is_ended(tmp_path: Path) -> None:
    suite = Suite(tmp_path, test_slow=HANGING_ONCE).run()

    assert (suite.code, suite.totals) == (pytest.ExitCode.OK, "1 unsteady")
    started = Path("/proc", (tmp_path / "test_slow.seen").read_text(), "cmdline")
    # Empty while its parent has not asked for its end.
    assert not started.exists() or not started.read_bytes()


def test_two_unsteady_tests_are_green_and_three_are_red(tmp_path: Path) -> None:
    first = tmp_path / "first"
    suite = Suite(first, test_one=UNSTEADY, test_two=TEARDOWN, test_right=RIGHT).run()
    assert (suite.code, suite.totals) == (pytest.ExitCode.OK, "1 passed, 2 unsteady"), suite.output

    second = tmp_path / "second"
    suite = Suite(second, test_one=UNSTEADY, test_two=TEARDOWN, test_three=UNSTEADY).run()
    assert suite.code == pytest.ExitCode.TESTS_FAILED
    assert suite.totals == "2 failed, 1 passed, 1 error"
    assert len(suite.lines("unsteady")) == 3
    assert suite.lines("this run is red") == ["3 tests are unsteady, and at most 2 may be"]


def test_six_failures_are_not_looked_at_again(tmp_path: Path) -> None:
    suite = Suite(tmp_path, **{f"test_{number}": UNSTEADY for number in range(6)}).run()

    assert (suite.code, suite.totals) == (pytest.ExitCode.TESTS_FAILED, "6 failed")
    assert suite.lines("this run is red") == ["6 tests failed, and at most 5 are run again"]


def test_a_worker_that_crashes_is_red(tmp_path: Path) -> None:
    suite = Suite(tmp_path, test_crashing=CRASHING, test_right=RIGHT).run()

    assert (suite.code, suite.totals) == (pytest.ExitCode.TESTS_FAILED, "1 failed, 1 passed")
    assert suite.lines("not run again") == ["test_crashing.py::test_crashing: its worker crashed"]


def test_a_file_that_cannot_be_collected_is_red(tmp_path: Path) -> None:
    suite = Suite(tmp_path, test_broken="import nothing_of_this_name", test_right=RIGHT).run()

    assert suite.code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "1 error" in suite.totals


def test_only_processes_with_all_variables_are_left_over() -> None:
    names = {"SECOND_LOOK_A": str(os.getpid()), "SECOND_LOOK_B": "1"}
    first, other = (
        subprocess.Popen(["sleep", "1000"], env={**os.environ, **variables})
        for variables in (names, {**names, "SECOND_LOOK_B": "2"})
    )
    try:
        kill_left_over(names)
        assert first.wait() == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (first, other):
            process.kill()
            process.wait()
