"""What the pages name in backticks exists: files, folders, modules, tests, attributes."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.management.metrics.metric_names import metric_names

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
ROOMS = ("amqp_server", "appendlog", "bench", "cli", "metadata", "offsets", "ring", "tests")
PLACE = re.compile(r"[a-z]\w*(?:/\w+)+(?:\.py)?/?|[a-z]\w*(?:\.py|/)")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
IDENTIFIER = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
AMQP_OR_FILE = re.compile(
    r"(?:access|basic|channel|confirm|connection|exchange|queue|queues|tx|vhosts|amq)\..*"
    r"|.*\.(?:json|md|py|sock|toml|txt)"
)


@cache
def source_paths() -> frozenset[str]:
    """Return every Python file, the page's, and their folders, with a slash before and behind."""
    paths: set[str] = set()
    for room in ROOMS:
        files = [*(REPOSITORY / room).rglob("*.py")]
        files += (REPOSITORY / room / "management" / "page").rglob("*.js")
        for path in files:
            inside = path.relative_to(REPOSITORY)
            paths |= {f"/{each.as_posix()}/" for each in (inside, *inside.parents)}
            paths.add(f"/{inside.with_suffix('').as_posix()}/")
    return frozenset(paths)


@cache
def source_words() -> frozenset[str]:
    """Return every word of the sources but the tests, of .ci/, of deploy/ and of all paths."""
    texts = [
        path.read_text()
        for room in ROOMS
        if room != "tests"
        for path in (REPOSITORY / room).rglob("*.py")
    ]
    for folder in (".ci", "deploy"):
        texts += [path.read_text() for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    return frozenset(re.findall(r"\w+", "\n".join([*texts, *source_paths()])))


@cache
def names_of_tests() -> frozenset[str]:
    """Return the names of all test functions; pages name some of them without the prefix."""
    texts = [path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")]
    return frozenset(re.findall(r"def (test_\w+)", "\n".join(texts)))


def code_words(page: Path) -> list[str]:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


def is_there(place: str) -> bool:
    """Tell whether a path, or the end of one, is a file, module or folder of ours."""
    end = f"/{place.strip('/')}/"
    # Of the data directory, of a user's, and of a release.
    folders = {"dist", "exports", "leases", "logs", "quarantine", "spill", "transactions"}
    if end.split("/")[1] in folders:
        return True
    if end.startswith("/deploy/"):
        return (REPOSITORY / place).exists()
    return any(path.endswith(end) for path in source_paths())


def missing_names(page: Path) -> list[str]:
    missing = []
    for word in code_words(page):
        if PLACE.fullmatch(word):
            if not is_there(word):
                missing.append(word)
        elif IDENTIFIER.fullmatch(word):
            known = source_words() | metric_names()
            if word not in known and f"test_{word}" not in names_of_tests():
                missing.append(word)
        elif DOTTED.fullmatch(word) and not AMQP_OR_FILE.fullmatch(word):
            missing += [word for part in word.split(".") if part not in source_words()]
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_attributes_named_on_a_page_exist(page: Path) -> None:
    assert missing_names(page) == []


def test_a_name_that_does_not_exist_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`broker/queue.py` `ring/` `tests/crash/test_nothing.py` `ring.lost_word` `lost_word`\n"
    )
    assert missing_names(page) == ["tests/crash/test_nothing.py", "ring.lost_word", "lost_word"]
