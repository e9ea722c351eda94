"""The README is true: its example runs; links on all pages lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import PAGES, REPOSITORY, texts_of
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

README = REPOSITORY / "README.md"
PLACE = "amqp://localhost"


@pytest.mark.crash
def test_the_ten_lines_run_against_a_real_server(tmp_path: Path) -> None:
    (example,) = texts_of(README, "python")
    assert PLACE in example
    assert len(example.splitlines()) <= 12

    with RunningServer(tmp_path / "data").start() as server:
        ended = subprocess.run(
            [sys.executable, "-c", example.replace(PLACE, f"amqp://{server.host}:{server.port}")],
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )

    assert (ended.stdout, ended.stderr, ended.returncode) == ("b'Hello!'\n", "", 0)


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
    page = REPOSITORY / "docs" / "architecture" / "packages.md"
    order = page.read_text().partition("Read the source in this order\n")[2]
    names = re.findall(r"`([a-z_/]+\.py)`", order.partition("\n## ")[0])

    assert names
    assert [name for name in names if not (REPOSITORY / name).exists()] == []


def test_the_index_names_every_page() -> None:
    docs = REPOSITORY / "docs"
    index = (docs / "index.md").read_text()
    pages = [*docs.glob("*.md"), *docs.glob("architecture/*.md"), docs / "decisions" / "index.md"]
    linked = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", index)}

    assert {str(page.relative_to(docs)) for page in pages} - linked == {"index.md"}
    assert "../CONTRIBUTING.md" in linked
