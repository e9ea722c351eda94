"""Adopts outputs without manifests, which earlier versions have written, unchanged.

The names of their files have the ranges; the metadata has the queue and the number of missing
offsets. So the next export only lists the files in a manifest.
"""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import ListedFile
from appendlog.spark.exporting.layout import file_metadata, part_range
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import first_overlap


def earlier_files(store: OutputStore, folder: str, log: QueueLog) -> list[ListedFile]:
    """Return the files of a queue that has no manifest, in the order of offsets.

    Reads the footer of each file, but no rows.

    Raises:
        OutputError: A file is not of an export, or of another queue or incarnation, or excludes
            offsets, or cannot be read; or two files have the same offsets.
    """
    files = [
        _listed(store, file.path, file.size_bytes, log)
        for file in store.list(folder)
        if file.path.endswith(".parquet")
    ]
    twice = first_overlap((file.start, file.end) for file in files)
    if twice:
        raise OutputError(
            f"{store.url}/{folder}: offsets [{twice[0]}, {twice[1]}) are in two files; "
            "give another --out"
        )
    return sorted(files, key=lambda file: file.start)


def _listed(store: OutputStore, path: str, size_bytes: int, log: QueueLog) -> ListedFile:
    where = f"{store.url}/{path}"
    name = part_range(path.rpartition("/")[2])
    if name is None:
        raise OutputError(f"{where}: not a file of an export; give another --out")
    try:
        with store.open_read(path) as file:
            footer = pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"{where}: not a readable Parquet file: {error}") from error
    found = footer.metadata or {}
    _check_owner(where, found, log)
    if _count(found, b"amqplog.files") > 1:
        raise OutputError(
            f"{where}: one of several files of its range, whose manifests are gone; give another "
            "--out"
        )
    if _count(found, b"amqplog.excluded"):
        raise OutputError(
            f"{where}: of an export with --include, whose manifests are gone: what it left out "
            "would count as exported; give another --out"
        )
    corrupt = _count(found, b"amqplog.corrupt")
    start, end = name
    return ListedFile(
        path=path,
        source=None,
        start=start,
        end=end,
        rows=footer.num_rows,
        bytes=size_bytes,
        min_ts=None,
        max_ts=None,
        sha256=None,
        missing=end - start - footer.num_rows - corrupt,
        corrupt=corrupt,
    )


def _count(found: dict[Any, Any], key: bytes) -> int:
    """Return a number from a footer, 0 if absent: files of the first versions have fewer."""
    text = found.get(key, b"0")
    return int(text) if text.isdigit() else 0


def _check_owner(where: str, found: dict[Any, Any], log: QueueLog) -> None:
    for key, expected in file_metadata(log).items():
        value = found.get(key.encode(), b"").decode("utf-8", "replace")
        if value != expected and key != "amqplog.schema_version":
            what = key.removeprefix("amqplog.")
            raise OutputError(
                f"{where}: {what} is {value or 'missing'}, that of the queue is {expected}: "
                "offsets of one are not those of the other; give another --out"
            )
