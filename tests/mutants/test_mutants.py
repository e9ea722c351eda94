"""What puts bugs into the code, tried on a repository of one small module."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.mutants import workplace
from tests.mutants.committed_tree import CommittedTree
from tests.mutants.drawing import draw, equivalent_bugs
from tests.mutants.hunt import Hunt
from tests.mutants.one_line_bugs import Bug, bugs_of
from tests.mutants.recorded_lines import RecordedLines
from tests.mutants.report import report
from tests.mutants.results import KILLED, SURVIVED, TIMEOUT, Results
from tests.mutants.rooms import (
    IN_NO_ROOM,
    IN_PROCESS,
    MIXED,
    NOT_RECORDED,
    PACKAGES,
    ROOMS,
    SPARK_ONLY,
    Room,
    namesakes,
)
from tests.mutants.workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
MODULE = "room/counting.py"
SOURCE = '''\
"""Counts."""

import time


def is_full(count: int, most: int) -> bool:
    """Return whether nothing more fits."""
    return count >= most


def first(items: list[int]) -> int:
    return items[0]


def digits(number: int) -> int:
    count = 1
    while number > 9:
        time.sleep(0.001)
        number //= 10
        count += 1
    return count
'''
# These would cost each process 0.4 s of a core, and no test of that repository needs them.
SETTINGS = """\
[pytest]
addopts = -p no:anyio -p no:asyncio -p no:hypothesispytest
"""
TESTS = """\
import pytest
from room.counting import digits, first, is_full

def test_full():
    assert is_full(3, 3) and not is_full(2, 3)

def test_first():
    assert first([7, 7]) == 7

@pytest.mark.timeout(5)
def test_digits():
    assert digits(100) == 3
"""
KILLING_TEST = """\
from room.counting import first

def test_the_first_is_not_the_second():
    assert first([7, 8]) == 7
"""
INTERRUPTING_TEST = """\
import os, signal, time
from room.counting import is_full

def test_full():
    if not is_full(3, 3):
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(1_000)
"""
ROOM = Room("counting", ("room/*.py",))
BOUNDARY = ("return count >= most", "return count > most")
SECOND = ("return items[0]", "return items[1]")
ENDLESS = ("number //= 10", "pass")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one module and its tests, committed."""
    path = tmp_path / "repository"
    files = {MODULE: SOURCE, "room/__init__.py": "", "test_counting.py": TESTS}
    files["pytest.ini"] = SETTINGS
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    _git(path, "init", "--quiet")
    _commit(path)
    return path


def bugs(*changes: tuple[str, str]) -> list[tuple[Room, Bug]]:
    """Return the named bugs of the module."""
    known = {(bug.before, bug.after): bug for bug in bugs_of(MODULE, SOURCE)}
    return [(ROOM, known[change]) for change in changes]


def hunt(
    repository: Path, drawn: list[tuple[Room, Bug]], files: tuple[str, ...] = ("test_counting.py",)
) -> Results:
    """Put bugs into the last commit, with what earlier calls have kept."""
    tree = CommittedTree.of_head(repository)
    kept = repository.parent
    results = Results(kept / "results.jsonl", tree)
    lines = RecordedLines(kept / "lines", tree, ["room"])
    with Workplace(tree) as place:
        list(lines.record(place, files))
    lines.load(repository, files)
    Hunt(tree, 1, lines, results).run(drawn, workers=2)
    return results


def outcomes(results: Results, drawn: list[tuple[Room, Bug]]) -> list[str]:
    """Return what became of each."""
    found = [results.of(bug) for _, bug in drawn]
    return [result.outcome for result in found if result is not None]


@pytest.mark.parametrize(
    ("line", "bug"),
    [
        ("if a < b: pass", "if a <= b: pass"),
        ("if a < b: pass", "if not (a < b): pass"),
        ("x = a is None", "x = a is not None"),
        ("x = a and b", "x = a or b"),
        ("x = not a", "x = a"),
        ("x = 7", "x = 8"),
        ("x = 7", "x = 6"),
        ("x = True", "x = False"),
        ("x = a + b", "x = a - b"),
        ("x += a", "x -= a"),
        ("x.y = a", "pass"),
        ("log.sync()", "pass"),
        ("f(a, b)", "f(b, a)"),
        ("f(a, sync=b)", "f(a)"),
        ("x = min(a, b)", "x = max(a, b)"),
        ("x = a[b:c]", "x = a[:c]"),
        ("x = [y for y in a if y]", "x = [y for y in a if not (y)]"),
        ("raise a", "pass"),
    ],
)
def test_each_kind_of_bug_is_found(line: str, bug: str) -> None:
    assert bug in {each.after for each in bugs_of("a.py", line)}


def test_bugs_of_functions_are_found() -> None:
    source = "async def f(a):\n    await a.sync()\n    for b in a:\n        break\n    return a\n"
    found = {(bug.line, bug.after) for bug in bugs_of("a.py", source)}
    assert found == {(2, "pass"), (2, "return"), (4, "continue"), (5, "return None")}


def test_what_only_people_and_type_checkers_read_has_no_bugs() -> None:
    source = '''\
"""Text with 1 < 2."""
from typing import TYPE_CHECKING, Protocol, cast
__all__ = ["a"]
if TYPE_CHECKING:
    x = 1
class P(Protocol):
    y: int = 1
class C:
    z: "list[1 < 2]"
    def __repr__(self):
        return 1 < 2
def f(a: "int | None") -> "int | None":
    """Text."""
    assert a < 1
    logger.warning("a < 1", 1 + 1)
    cast(int | None, a)
'''
    assert [bug for bug in bugs_of("a.py", source) if bug.line != 16] == []


def test_what_only_compiled_kernels_do_has_no_bugs() -> None:
    source = """\
def f(a):  # pragma: no cover
    return a < 1
def g(a):
    if COMPILED:
        a = 1
    else:
        a = 2
    a = 3 if COMPILED else 4
"""
    assert {bug.after for bug in bugs_of("a.py", source)} == {
        *("a = 3", "a = 1"),
        *("a = 3 if COMPILED else 5", "a = 3 if COMPILED else 3"),
    }


def test_a_bug_changes_its_line_and_no_other() -> None:
    old = SOURCE.split("\n")
    for bug in bugs_of(MODULE, SOURCE):
        new = bug.put_into(SOURCE).split("\n")
        changed = [number for number, each in enumerate(new, 1) if each != old[number - 1]]
        assert (changed, len(new)) == ([bug.line], len(old))


def test_a_seed_draws_the_same_bugs_again_and_a_larger_number_begins_with_them(
    repository: Path,
) -> None:
    few = draw(repository, [ROOM], 5, 3, set())
    assert few == draw(repository, [ROOM], 5, 99, set())[:3]
    assert len({bug.line for _, bug in few}) == 3, "of one line there is one bug"
    others = [draw(repository, [ROOM], seed, 3, set()) for seed in range(20)]
    assert any(each != few for each in others)


def test_a_change_elsewhere_leaves_the_draw_as_it_was(repository: Path) -> None:
    before = [bug.key for _, bug in draw(repository, [ROOM], 5, 5, set())]
    (repository / MODULE).write_text(SOURCE.replace('"""Counts."""', '"""Counts."""\n\nimport os'))
    assert [bug.key for _, bug in draw(repository, [ROOM], 5, 5, set())] == before


def test_tests_from_outside_are_found_by_the_name_of_a_module() -> None:
    path = "amqp_server/broker/consuming/single_active_consumer.py"
    found = ["tests/conformance/test_single_active_consumer.py"]
    assert namesakes(REPOSITORY, path) == found
    # Of these it is recorded which lines they run.
    assert namesakes(REPOSITORY, "amqp_server/broker/transfers/forwarder.py") == []


def test_killed_and_survived_and_endless_are_told_apart(repository: Path) -> None:
    drawn = bugs(BOUNDARY, SECOND, ENDLESS)
    results = hunt(repository, drawn)
    assert outcomes(results, drawn) == [KILLED, SURVIVED, TIMEOUT]
    texts, percent = report(drawn, results)
    assert round(percent) == 67
    assert any(f"{MODULE}:12: {SECOND[0]} -> {SECOND[1]}" in text for text in texts)
    assert (repository / MODULE).read_text() == SOURCE, "the user's tree is left alone"


def test_what_is_known_is_not_run_again_and_a_new_test_meets_the_survivors(
    repository: Path,
) -> None:
    drawn = bugs(BOUNDARY, SECOND)
    hunt(repository, drawn[:1])
    assert outcomes(hunt(repository, drawn), drawn) == [KILLED, SURVIVED]
    kept = repository.parent / "results.jsonl"
    assert len(kept.read_text().splitlines()) == 2, "the first one was not run again"
    (repository / "test_first.py").write_text(KILLING_TEST)
    _commit(repository)
    again = hunt(repository, drawn, ("test_counting.py", "test_first.py"))
    assert outcomes(again, drawn) == [KILLED, KILLED]
    assert len(kept.read_text().splitlines()) == 3, "only the survivor was run again"


def test_a_hunt_that_is_interrupted_ends_at_once_and_says_nothing_of_what_it_was_at(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(repository.parent))
    monkeypatch.setattr(workplace, "MEMORY_DISK", repository.parent / "none")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    (repository / "test_counting.py").write_text(INTERRUPTING_TEST)
    _commit(repository)
    try:
        with pytest.raises(KeyboardInterrupt):
            hunt(repository, bugs(BOUNDARY))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not (repository.parent / "results.jsonl").exists()
    assert not list(repository.parent.glob("mutants-*")), "the copies are gone"


def test_a_kill_says_nothing_when_the_test_has_changed(repository: Path) -> None:
    drawn = bugs(BOUNDARY)
    hunt(repository, drawn)
    (repository / "test_counting.py").write_text(TESTS.replace("is_full(3, 3) and ", ""))
    _commit(repository)
    assert outcomes(hunt(repository, drawn), drawn) == [SURVIVED]


def test_equivalent_bugs_are_passed_over(repository: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text(_entry(*SECOND, "all are alike"))
    keys = equivalent_bugs(repository, known)
    drawn = draw(repository, [ROOM], 5, 1_000, keys)
    assert keys == {f"{MODULE}|0|{SECOND[0]}|{SECOND[1]}"}
    assert keys.isdisjoint(bug.key for _, bug in drawn)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [(("return 5", "return 6", "old"), "no such bug"), ((*SECOND, ""), "say why")],
)
def test_an_entry_that_is_no_bug_any_more_or_has_no_reason_is_refused(
    repository: Path, tmp_path: Path, entry: tuple[str, str, str], fault: str
) -> None:
    known = tmp_path / "known.toml"
    known.write_text(_entry(*entry))
    with pytest.raises(ValueError, match=fault):
        equivalent_bugs(repository, known)


def test_what_rooms_and_the_list_of_equivalent_bugs_name_is_there() -> None:
    for room in ROOMS:
        for pattern in room.sources:
            assert list(REPOSITORY.glob(pattern)), pattern
        for test in room.outside:
            assert (REPOSITORY / test).exists(), test
    for folder in (*IN_PROCESS, *MIXED):
        assert (REPOSITORY / "tests" / folder).is_dir(), folder
    assert equivalent_bugs(REPOSITORY, EQUIVALENT)


def test_every_module_of_the_product_is_in_a_room_or_a_reason_says_why_not() -> None:
    roomy = {path for room in ROOMS for path in room.paths(REPOSITORY)}
    found = {
        str(path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if path.stem not in SPARK_ONLY
    }
    missing = {
        path
        for path in found - roomy
        if not any(path.startswith(f"{each}/") for each in IN_NO_ROOM)
    }
    assert missing == set()
    for folder in IN_NO_ROOM:
        assert (REPOSITORY / folder).is_dir(), folder
        assert not any(path.startswith(f"{folder}/") for path in roomy), folder
    packages = {path.parent.name for path in REPOSITORY.glob("*/__init__.py")}
    assert packages - {"tests", "bench"} == set(PACKAGES)


def test_the_lines_of_every_folder_of_tests_are_recorded_or_a_reason_says_why_not() -> None:
    """Bugs survived that tests of folders of folders would have found: they were in no list."""
    tests = REPOSITORY / "tests"
    folders = {
        str(path.parent.relative_to(tests))
        for path in tests.rglob("test_*.py")
        if "node_modules" not in path.parts
    }
    assert folders - {"."} == {*IN_PROCESS, *MIXED, *NOT_RECORDED}
    assert not {*IN_PROCESS, *MIXED} & {*NOT_RECORDED}


def test_a_module_that_two_rooms_name_gives_its_bugs_to_the_first(repository: Path) -> None:
    first, second = Room("first", (MODULE,)), Room("second", ("room/*.py",))
    drawn = draw(repository, [first, second], 5, 1_000, set())
    assert {room for room, _ in drawn} == {first}


def _entry(before: str, after: str, reason: str) -> str:
    return (
        f'[[bug]]\npath = "{MODULE}"\nbefore = "{before}"\nafter = "{after}"\nreason = "{reason}"'
    )


def _commit(repository: Path) -> None:
    _git(repository, "add", "--all")
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    _git(repository, *author, "commit", "--quiet", "--message", "state")


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, check=True)
