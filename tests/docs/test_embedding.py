"""The page about logs without a server: its examples run in order, and its table is the code's."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from appendlog import DURABLE, EDGE, STORAGE, THROUGHPUT, EmbeddedOptions
from offsets import OnError, ProcessOptions

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "embedding.md").read_text()
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
COLUMNS = (EmbeddedOptions(), THROUGHPUT, STORAGE, EDGE, DURABLE)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "d": 86_400}


@pytest.mark.crash
def test_the_examples_print_what_the_page_says(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) >= 2
    for code, printed in examples:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env={"PYTHONPATH": str(REPOSITORY)},
        )
        assert (ended.stdout, ended.stderr, ended.returncode) == (printed, "", 0), code


def test_the_table_of_presets_has_every_option_with_its_values() -> None:
    table = PAGE.partition("## Presets")[2].partition("## Retention")[0]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE)
    shown = {name: [value_of(cell.strip()) for cell in cells.split("|")] for name, cells in rows}
    assert shown == {
        field.name: [getattr(options, field.name) for options in COLUMNS]
        for field in fields(EmbeddedOptions)
    }


def test_the_table_of_processing_has_the_defaults() -> None:
    table = PAGE.partition("| `ProcessOptions` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]*) \|", table, re.MULTILINE)
    shown: dict[str, object] = {
        name: value_of(cell.strip("`"))
        for names, cells in rows
        for name, cell in zip(re.findall(r"\w+", names), cells.split(", "), strict=True)
        if cell
    }
    defaults = {
        field.name: getattr(ProcessOptions(), field.name) for field in fields(ProcessOptions)
    }
    shown["on_error"] = OnError[str(shown["on_error"])]
    assert shown == {name: value for name, value in defaults.items() if value is not None}


def value_of(cell: str) -> bool | float | str:
    if cell in ("yes", "no"):
        return cell == "yes"
    number, _, unit = cell.partition(" ")
    return float(number) * UNITS.get(unit, 1) if number[0].isdigit() else cell
