"""Each decision is a short page of one form, and the index lists it."""

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parents[2] / "docs" / "decisions"
PAGES = sorted(page for page in DECISIONS.glob("*.md") if page.name != "index.md")
LINES_MAX = 20
DESIGNS = {"turn"}
"""Pages that describe a design as a whole: as long as it takes, and they say what is built."""


def test_the_index_lists_every_decision_under_its_title() -> None:
    listed = re.findall(r"\| \[([^]]+)\]\(([\w-]+\.md)\) \|$", index_text(), re.MULTILINE)
    assert sorted(listed) == sorted((title_of(page), page.name) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_context_decision_and_consequences(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^\*\*(\w+)\.\*\* ", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Consequences",
    ]
    if page.stem in DESIGNS:
        assert "**What is built.**" in text
    else:
        assert len(text.splitlines()) <= LINES_MAX


def index_text() -> str:
    return (DECISIONS / "index.md").read_text()


def title_of(page: Path) -> str:
    return page.read_text().partition("\n")[0].removeprefix("# ")
