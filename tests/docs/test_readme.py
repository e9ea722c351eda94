"""The README is true: its example runs, its options and links are those of the project."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import command
from cli.settings import ServerOption
from tests.servers import RunningServer

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
PAGES = [README, *sorted((REPOSITORY / "docs").rglob("*.md"))]
PLACE = "amqp://localhost"


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def option_rows() -> dict[str, str]:
    """Return the default of each option in the table, by the option."""
    row = re.compile(r"^\| `(--[a-z-]+)` \|[^|]*\| *(?:`([^`]*)`)? *\|", re.MULTILINE)
    return dict(row.findall(README.read_text()))


@pytest.mark.crash
def test_the_ten_lines_run_against_a_real_server(tmp_path: Path) -> None:
    (example,) = code_blocks(README, "python")
    assert PLACE in example
    assert len(example.splitlines()) <= 12

    with RunningServer(tmp_path / "data").start() as server:
        ended = subprocess.run(
            [sys.executable, "-c", example.replace(PLACE, f"amqp://{server.host}:{server.port}")],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert (ended.stdout, ended.stderr, ended.returncode) == ("b'Hello!'\n", "", 0)


def test_every_option_is_in_the_table_with_its_default() -> None:
    options = {
        f"--{param.key}": str(param.default)
        for param in command.params
        if isinstance(param, ServerOption)
    }
    shown = option_rows()

    assert shown.keys() == options.keys()
    # `--config` alone has none.
    wrong = {name: default for name, default in shown.items() if default != options[name]}
    assert wrong == {"--config": ""}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            anchors = {
                re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings
            }
            assert anchor in anchors, link


def test_files_named_in_the_reading_order_exist() -> None:
    order = README.read_text().partition("## Read the source in this order")[2]
    names = re.findall(r"`([a-z_/]+\.py)`", order.partition("## Licence")[0])

    assert names
    assert [name for name in names if not (REPOSITORY / name).exists()] == []
