"""Each block of code on the pages names its language, and is run by a test or says why it is not.

`make check-docs` runs them (`every_page.py`), unless a test of their page does.
"""

import configparser
import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.docs.code_blocks import FOREIGN, PAGES, READ, REPOSITORY, RUN, CodeBlock, code_blocks
from tests.docs.preparations import PREPARATIONS
from tests.docs.reader import matches, parts_of

RUN_BY_OTHERS: Final = {
    "docs/embedding.md": ("test_embedding.py", 6),
    "docs/production.md": ("test_production.py", 32),
    "docs/testing-faults.md": ("test_testing_page.py", 3),
    "docs/testing-go.md": ("page_of_go.py", 3),
    "docs/testing-java.md": ("page_of_java.py", 2),
    "docs/testing-node.md": ("test_testing_node.py", 3),
    "docs/testing-your-code.md": ("test_testing_page.py", 8),
}
"""The pages that one test runs whole, with its file and the number of blocks that it runs.

Whoever adds a block looks whether the test runs it.
"""


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(REPOSITORY))


def problems_of(block: CodeBlock) -> str | None:
    """Return what is wrong with a block; None: nothing."""
    if not block.language:
        return "names no language; `text` is no code"
    if not block.is_code:
        return "is no code, and says why it is not run" if block.reason else None
    if block.language in FOREIGN | RUN:
        return None
    if block.language not in READ:
        return f"in a language that nothing runs: {block.language}"
    try:
        read(block)
    except (ValueError, yaml.YAMLError, configparser.Error) as error:
        return f"is no {block.language}: {error}"
    return None


def read(block: CodeBlock) -> None:
    """Read a block as programs read it."""
    match block.language:
        case "json":
            json.loads(block.text)
        case "yaml":
            yaml.safe_load(block.text)
        case "toml":
            tomllib.loads(block.text)
        case "ini":
            configparser.ConfigParser(strict=False).read_string(f"[section]\n{block.text}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_names_its_language_and_can_be_read(page: Path) -> None:
    problems = {block.line: what for block in code_blocks(page) if (what := problems_of(block))}
    assert problems == {}


def test_the_pages_that_others_run_are_those_that_they_read() -> None:
    for name, (test, count) in RUN_BY_OTHERS.items():
        source = Path(__file__).with_name(test).read_text()
        assert Path(name).name in source, name
        blocks = [block for block in code_blocks(REPOSITORY / name) if block.reason is None]
        assert sum(block.language in RUN | FOREIGN for block in blocks) == count, name


def test_what_is_said_to_be_prepared_is_for_pages_that_are_run() -> None:
    pages = {name_of(page) for page in PAGES}
    assert set(PREPARATIONS) <= pages - set(RUN_BY_OTHERS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_programs_are_programs_and_files_that_a_reason_names_exist(page: Path) -> None:
    for block in code_blocks(page):
        if block.language == "python":
            compile(block.text, f"{page.name}:{block.line}", "exec")
        for name in re.findall(r"\btests/[\w/.]*", block.reason or ""):
            assert (REPOSITORY / name).exists(), name


def test_blocks_are_found_with_what_is_said_about_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\na \\\n  b\n```\n"
        "<!-- not run: needs a cluster -->\n```console\n$ a\nb\n```\n"
        "1. step\n   <!-- until stopped -->\n   ```sh\n   a\n     b\n   ```\n"
        "```\n```\n"
    )
    assert code_blocks(page) == [
        CodeBlock(2, "sh", "a \\\n  b\n"),
        CodeBlock(7, "console", "$ a\nb\n", "needs a cluster"),
        CodeBlock(13, "sh", "a\n  b\n", None, "until stopped"),
        CodeBlock(17, "", ""),
    ]
    problems = [problems_of(block) is not None for block in code_blocks(page)]
    assert problems == [False, False, False, True]
    page.write_text("```sh\n")
    with pytest.raises(AssertionError, match="a block without an end"):
        code_blocks(page)


@pytest.mark.parametrize(
    ("language", "text", "problem"),
    [
        ("json", "{", "is no json"),
        ("yaml", "a: [", "is no yaml"),
        ("toml", "a =", "is no toml"),
        ("ini", "a", "is no ini"),
        ("fortran", "end", "in a language that nothing runs: fortran"),
    ],
)
def test_a_block_that_no_program_can_read_is_a_mistake(
    language: str, text: str, problem: str
) -> None:
    assert str(problems_of(CodeBlock(1, language, text))).startswith(problem)


def test_a_session_is_its_commands_and_what_each_prints() -> None:
    session = "$ one \\\n    two\nprinted\n\n$ three 'a\nb'\n# four\n"
    assert list(parts_of(session)) == [
        ("one \\\n    two", "printed"),
        ("three 'a\nb'", ""),
        ("four", ""),
    ]


@pytest.mark.parametrize(
    ("documented", "printed", "is_same"),
    [
        ("at 2026-11-21  12 B", "at 2025-01-02 1234 B", True),
        ("COMMITTED\n   -  a", "COMMITTED\n1200 a", True),
        ("one\n...\nthree", "one\n2\ntwo\nthree", True),
        ("", "anything", True),
        ("one", "one\ntwo", False),
        ("ready 3", "ready: 3", False),
    ],
)
def test_what_is_printed_may_differ_in_its_numbers_only(
    documented: str, printed: str, is_same: bool
) -> None:
    assert matches(documented, printed) == is_same
