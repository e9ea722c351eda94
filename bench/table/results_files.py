"""Writes a report to files."""

import json
from collections.abc import Sequence
from pathlib import Path

from bench.table.picture import draw
from bench.table.report import Report
from bench.table.text import format_head, format_notes, format_row


def write_all(report: Report, directory: Path) -> Sequence[Path]:
    """Write JSON, text and picture, named by date and commit, and return the files.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: A file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    commit = report.machine.commit.replace("+", "-dirty") or "unknown"
    stem = f"{report.date}-{commit}" + ("-quick" if report.is_quick else "")
    files = [directory / f"{stem}.{suffix}" for suffix in ("json", "txt", "png")]
    write_json(report, files[0])
    files[1].write_text(format_report(report))
    draw(report, files[2])
    return files


def write_json(report: Report, file: Path) -> None:
    """Write the report as JSON, with every run.

    Raises:
        OSError: The file cannot be written.
    """
    file.write_text(json.dumps(report.to_json(), indent=1) + "\n")


def format_report(report: Report) -> str:
    """Return the whole table as text, with its machine."""
    is_judged = not report.is_quick
    products = ", ".join(f"{name}: {each}" for name, each in report.products.items())
    lines = [
        f"{report.date}, {report.machine.describe()}, {report.file_system}",
        products,
        "",
        format_head(),
        *(format_row(result, is_judged=is_judged) for result in report.results),
        "",
        *format_notes(report.results, is_judged=is_judged),
        *report.faults,
    ]
    return "\n".join(lines) + "\n"
