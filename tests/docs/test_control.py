"""The page of the control socket is true: its program runs, and prints what the page says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import REPOSITORY, texts_of
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

PAGE = REPOSITORY / "docs" / "control.md"


@pytest.mark.crash
def test_the_program_of_the_page_asks_a_real_server(tmp_path: Path) -> None:
    (program,) = texts_of(PAGE, "python")
    printed, _ = texts_of(PAGE, "text")
    with RunningServer(tmp_path / "data").start():
        ended = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    assert (ended.stdout, ended.stderr, ended.returncode) == (printed, "", 0)


def test_a_command_has_one_row() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(set(rows))
