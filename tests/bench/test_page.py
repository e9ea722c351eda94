"""`python -m bench page`, where Chromium is missing; `make check-tools` runs it with Chromium."""

import shutil

import pytest
from click.testing import CliRunner

from bench.page import command


@pytest.mark.parametrize(
    ("programs", "missing"),
    [((), "Chromium is not installed"), (("chromium",), "Node.js is not installed")],
)
def test_what_is_missing_is_said_and_nothing_is_measured(
    programs: tuple[str, ...], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in programs else None)

    done = CliRunner().invoke(command.page, [])

    assert done.exit_code == 0
    assert done.output.startswith(f"skipped: {missing}")
    assert len(done.output.splitlines()) == 1
