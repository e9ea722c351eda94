"""One page says how to install; its tables are what is built, and the others send readers there."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.code_blocks import PAGES, REPOSITORY
from tests.docs.test_readme import README

PAGE = REPOSITORY / "docs" / "installing.md"
SCRIPT = (REPOSITORY / ".ci" / "wheels").read_text()
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
FROM_INDEX = re.compile(
    r"pip install[^\n`]* '?amqp-server|\b(?:uvx|pipx run|uv tool install) amqp-server"
)
FROM_CLONE = re.compile(r"pip install[^\n`]* '?\.(?:\[|['\s`])")


def pythons() -> list[str]:
    (named,) = re.findall(r"pythons=\((3[\d. ]+)\)", SCRIPT)
    return str(named).split()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose first column has this heading."""
    table = PAGE.read_text().partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_that_installs_from_an_index_sends_its_reader_to_the_page(page: Path) -> None:
    text = page.read_text()
    if page != PAGE and FROM_INDEX.search(text):
        assert re.search(r"\]\([^)]*installing\.md\)", text)


def test_no_other_page_but_the_first_says_how_to_install_a_clone() -> None:
    saying = {page for page in PAGES if FROM_CLONE.search(page.read_text())}
    assert saying == {PAGE, README}


def test_both_ways_are_recognized() -> None:
    assert FROM_INDEX.search("$ sudo /opt/bin/pip install amqp-server")
    assert FROM_INDEX.search("pip install --upgrade 'amqp-server[spark]' venv-pack")
    assert FROM_INDEX.search("run `uvx amqp-server`")
    assert not FROM_INDEX.search("`pip install pika`: amqp-server needs it")
    assert FROM_CLONE.search("pip install . pika\n")
    assert FROM_CLONE.search("`pip install '.[spark]'`")
    assert not FROM_CLONE.search("pip install amqp-server.")


def test_the_table_has_each_wheel_that_is_built() -> None:
    systems = re.findall(r"^    \[(\w+)\]=", SCRIPT, re.MULTILINE)
    built = [row for row in rows("system") if row[2] == "`make wheels`"]

    assert [re.match(r"`(\w+)`", row[0])[1] for row in built] == systems  # type: ignore[index]
    assert {row[1] for row in built} == {", ".join(pythons())}


def test_a_machine_of_each_system_builds_for_the_same_pythons() -> None:
    wanted = [f"cp{version.replace('.', '')}-*" for version in pythons()]
    assert PROJECT["tool"]["cibuildwheel"]["build"] == wanted


def test_the_table_of_extras_has_all() -> None:
    named = [row[0].strip("`") for row in rows("extra")]
    assert named == ["", *PROJECT["project"]["optional-dependencies"]]


def test_the_release_has_every_file_that_the_page_names() -> None:
    version = PROJECT["project"]["version"]
    assert set(re.findall(r"amqp_server-([\d.]+\d)", PAGE.read_text())) == {version}
