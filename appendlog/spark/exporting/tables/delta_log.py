"""Makes commits of delta-rs durable, and turns its errors into one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.layout import DELTA_DIRECTORY
from appendlog.spark.exporting.tables.table_files import sync_paths
from appendlog.spark.exporting.tables.table_names import lake_module

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")


def sync_commits(url: str, since_version: int) -> None:
    """Make the commits to a table in a directory durable; in object stores they are.

    Args:
        url: URL of the table.
        since_version: First version that may not be durable.

    Raises:
        OSError: A file cannot be synced.
    """
    if "://" in url:
        return
    folder = Path(url) / DELTA_DIRECTORY
    versions = ((path, path.stem.split(".")[0]) for path in folder.glob("*.json"))
    written = [path for path, version in versions if int(version) >= since_version]
    sync_paths([*written, folder, folder.parent])


@contextmanager
def table_errors(url: str) -> Iterator[None]:
    """Turn errors of the library into one line.

    Raises:
        OutputError: The library, or the file system, failed.
    """
    try:
        yield
    except (lake_module("deltalake").exceptions.DeltaError, OSError) as error:
        lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines()]
        raise OutputError(f"{url}: {': '.join(filter(None, lines))}") from error
