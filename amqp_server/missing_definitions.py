"""Telling a data directory that lost its definitions from one that never had any."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from metadata.loading import LoadReport


def missing_definitions(storage_path: Path, report: LoadReport) -> str | None:
    """Return what is wrong if there are logs and no definition at all, else None.

    All of the logs would be taken for those of queues that are gone. The first start writes a
    definition before there can be a log, so they were lost, or left out of a copy.

    Args:
        storage_path: The data directory.
        report: What was found in its `metadata`.
    """
    if report.documents or report.unreadable or not any((storage_path / "logs").glob("*/*/*")):
        return None
    return (
        f"{storage_path / 'metadata'} is empty or missing, but {storage_path / 'logs'} has logs: "
        "put the definitions back, or remove the logs if they are not wanted any more"
    )
