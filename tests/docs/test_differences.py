"""The list of differences from RabbitMQ: all have tests, every marked test is named."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CONFORMANCE = "tests/conformance/"
PAGE = REPOSITORY / "docs" / "protocol-differences.md"
OLDER = "## Where RabbitMQ 3.10 differs from 4.2"
AFTER = "## How all this is tested"
ROW = re.compile(r"^\|(?! what \||---).*\|$", re.MULTILINE)
ENTRY = re.compile(r"^### .*?(?=^##|\Z)", re.MULTILINE | re.DOTALL)
POINT = re.compile(r"^- (\w+): (?=\S)", re.MULTILINE)
COMMENT = re.compile(r"<!-- (.*?) -->", re.DOTALL)
MARKS = {"differs", "differs_from_3_10", "ours_only"}


@cache
def parts() -> tuple[str, str]:
    """Return what the page says about RabbitMQ 4.2, and about what only 3.10 does."""
    newer, older_and_rest = PAGE.read_text().split(f"\n{OLDER}\n")
    older, _ = older_and_rest.split(f"\n{AFTER}\n")
    return newer, older


def differences(*, older: bool) -> list[str]:
    """Return the rows of tables, and what does not fit into a row: the sections of level 3."""
    part = parts()[older]
    return ROW.findall(part) + ENTRY.findall(part)


def named_tests(difference: str) -> list[str]:
    return [name for comment in COMMENT.findall(difference) for name in comment.split()]


@cache
def marks_by_test(path: Path) -> dict[str, set[str]]:
    """Return the tests of a file, `Class::test` or `test`, with their marks of differences."""
    tree = ast.parse(path.read_text())
    aliases = {mark: {mark} for mark in MARKS}
    everywhere: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found = marks_in(statement.value, aliases)
            if statement.targets[0].id == "pytestmark":
                everywhere |= found
            elif found:
                aliases[statement.targets[0].id] = found
    tests: dict[str, set[str]] = {}
    for statement in tree.body:
        inside = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        prefix = f"{statement.name}::" if isinstance(statement, ast.ClassDef) else ""
        for test in inside:
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = [marks_in(each, aliases) for each in test.decorator_list]
                tests[prefix + test.name] = everywhere.union(*decorators)
    return tests


def marks_in(expression: ast.expr, aliases: dict[str, set[str]]) -> set[str]:
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    return {mark for name in names for mark in aliases.get(name, ())}


def marks_of(name: str) -> set[str] | None:
    """Return the marks of `path::test`; None if there is no such test."""
    path, _, test = name.partition("::")
    file = REPOSITORY / path
    return marks_by_test(file).get(test) if file.is_file() else None


def marked_tests(mark: str) -> set[str]:
    return {
        f"{CONFORMANCE}{path.name}::{test}"
        for path in (REPOSITORY / CONFORMANCE).glob("test_*.py")
        for test, marks in marks_by_test(path).items()
        if mark in marks
    }


@pytest.mark.parametrize("older", [False, True], ids=["4.2", "3.10"])
def test_every_row_names_tests_that_are_there(older: bool) -> None:
    assert len(differences(older=older)) > 15
    unnamed = [row for row in differences(older=older) if not named_tests(row)]
    assert not unnamed
    names = [name for row in differences(older=older) for name in named_tests(row)]
    assert [name for name in names if marks_of(name) is None] == []


def test_a_row_is_a_claim_that_its_tests_check_against_rabbitmq() -> None:
    """Outside of the conformance suite a test sees ours alone, which is all that it can."""
    for row in differences(older=False):
        seen = [name for name in named_tests(row) if name.startswith(CONFORMANCE)]
        for name in seen:
            assert (marks_of(name) or set()) & {"differs", "ours_only"}, f"{name}: {row}"
    for row in differences(older=True):
        for name in named_tests(row):
            assert marks_of(name) == {"differs_from_3_10"}, f"{name}: {row}"


@pytest.mark.parametrize(
    ("mark", "older"), [("differs", False), ("differs_from_3_10", True)], ids=["4.2", "3.10"]
)
def test_every_difference_that_a_test_marks_has_one_row(mark: str, older: bool) -> None:
    named = Counter(name for row in differences(older=older) for name in named_tests(row))
    assert sorted(marked_tests(mark) - named.keys()) == []
    assert [name for name, count in named.items() if count > 1] == []


def test_a_difference_says_what_rabbitmq_does_and_why_we_do_not() -> None:
    for difference in differences(older=False):
        text = COMMENT.sub("", difference)
        if text.startswith("### "):
            assert POINT.findall(text) == ["RabbitMQ", "Here", "Why"], difference
        else:
            cells = [cell.strip() for cell in text.strip("|").split(" | ")]
            assert len(cells) == 4, difference
            assert all(cells), difference


def test_every_named_test_is_in_a_row_or_a_section() -> None:
    """A comment that the tests above do not see would claim without being checked."""
    for older in (False, True):
        seen = [name for each in differences(older=older) for name in named_tests(each)]
        assert sorted(seen) == sorted(named_tests(parts()[older]))


def test_a_mark_is_found_by_itself_by_a_name_and_for_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(
        "ALIAS = partial(differs, rabbitmq='')\n"
        "@ALIAS(since=4)\ndef test_a(): ...\n"
        "class TestB:\n    @differs_from_3_10('')\n    def test_b(self): ...\n"
        "def test_c(): ...\n"
    )
    found = {"test_a": {"differs"}, "TestB::test_b": {"differs_from_3_10"}, "test_c": set[str]()}
    assert marks_by_test(file) == found
    whole = tmp_path / "test_y.py"
    whole.write_text("pytestmark = ours_only('')\ndef test_d(): ...\n")
    assert marks_by_test(whole) == {"test_d": {"ours_only"}}
