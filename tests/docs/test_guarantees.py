"""What the page of guarantees says is shown by the tests that it names: they are there."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [DOCS / "guarantees.md", DOCS / "architecture.md", *sorted(DOCS.glob("architecture/*.md"))]
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_is_named_exists() -> None:
    named = [match for page in PAGES for match in REFERENCE.findall(page.read_text())]
    assert len(named) > 20
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (REPOSITORY / path).is_file()
        or (name and f"def {name}(" not in (REPOSITORY / path).read_text())
    ]
    assert not missing


def test_every_row_of_the_failures_has_its_test() -> None:
    page = PAGES[0].read_text()
    numbers = {int(number) for number in re.findall(r"\[(\d+)\]", page)}
    notes = re.findall(r"^(\d+)\. .*?(?=^\d+\. |^\n|\Z)", page, re.MULTILINE | re.DOTALL)
    assert numbers == set(map(int, notes)) == set(range(1, 13))
    for text in re.findall(r"^\d+\. (.*?)(?=^\d+\. |^\n|\Z)", page, re.MULTILINE | re.DOTALL):
        assert REFERENCE.search(text), text
