"""The file `recovery.json` in the data directory: the report of the last start."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from appendlog import FileSystem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger("amqp_server.start_report_file")

REPORT_NAME: Final = "recovery.json"
LISTS_NAMES: Final = "lists_names"
"""Member of a report whose start has kept the list of names."""
REPORT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest size in bytes; no report is longer, so a longer file is none."""


def store_report(
    storage_path: Path, filesystem: FileSystem, report_json: Callable[[], dict[str, Any]]
) -> None:
    """Replace the report of the last start by this one, atomically; blocks.

    The start does not depend on it: a write error is only logged.

    Args:
        storage_path: The data directory.
        filesystem: File operations.
        report_json: Returns the report as JSON values.
    """
    path = storage_path / REPORT_NAME
    temporary = path.with_name(f"{REPORT_NAME}.tmp")
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    content = orjson.dumps(report_json(), option=option)
    try:
        filesystem.write_file(temporary, content)
        filesystem.rename(temporary, path)
    except OSError as error:
        logger.warning("recovery report not written path=%s error=%s", path, error)


class KnownNames(NamedTuple):
    """State of the list of names (`metadata.name_list`) after the last start.

    Attributes:
        believes_names: Whether the list can be believed. Not if the last start was one of a program
            that knows no list: it may have removed documents that are still listed.
        expects_names: Whether there was a list.
    """

    believes_names: bool
    expects_names: bool


def known_names(storage_path: Path) -> KnownNames:
    """Return what the last start says of the list of names; blocks."""
    try:
        lists_names = bool(load_report(storage_path).get(LISTS_NAMES))
    except (OSError, ValueError):
        # The report was damaged or removed; that must not hide other damage.
        return KnownNames(believes_names=True, expects_names=False)
    return KnownNames(lists_names, lists_names)


def load_report(storage_path: Path) -> dict[str, Any]:
    """Return the report of the last start.

    Raises:
        OSError: There is no report, or it cannot be read.
        ValueError: The file is not a report.
    """
    content = FileSystem().read_file(storage_path / REPORT_NAME, REPORT_BYTES_MAX + 1)
    report = orjson.loads(content)
    if not isinstance(report, dict) or "totals" not in report:
        raise ValueError("not a recovery report")
    return report
