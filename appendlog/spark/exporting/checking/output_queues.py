"""Finds the queues of an output of files by their manifests."""

import re
from typing import Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import OutputDamagedError, decode_manifest
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.layout import WORK_DIRECTORY
from appendlog.spark.exporting.stores.contents import Contents, contents_of
from appendlog.spark.exporting.stores.store import OutputStore

_MANIFEST: Final = re.compile(rf"{WORK_DIRECTORY}/([^/]+)/manifest/\d{{20}}\.json\Z")


def exported_queues(store: OutputStore, queue: str | None = None) -> list[Manifests]:
    """Return the manifests of the queues of an output, by the names of their folders.

    Args:
        store: Store of the output.
        queue: Name of the only queue to return; None for all.

    Raises:
        OutputError: There is no queue: nothing was exported here, or to a table.
        OutputDamagedError: No manifest of a queue can be read.
    """
    if queue is not None:
        manifests = Manifests(store, queue)
        if not manifests.survey().manifests:
            raise OutputError(f"{store.url}: no manifest of queue {queue!r}{_why(store)}")
        return [manifests]
    folders: dict[str, list[str]] = {}
    for file in store.list(WORK_DIRECTORY):
        if found := _MANIFEST.match(file.path):
            folders.setdefault(found[1], []).append(file.path)
    if not folders:
        raise OutputError(f"{store.url}: no manifest of any queue{_why(store)}")
    return [Manifests(store, _queue_of(store, paths)) for _, paths in sorted(folders.items())]


def _queue_of(store: OutputStore, paths: list[str]) -> str:
    """Return the queue's name from its manifests: the folder's name is not reversible."""
    damage: OutputDamagedError | None = None
    for path in paths:
        try:
            return decode_manifest(store.read(path), f"{store.url}/{path}").queue
        except OutputDamagedError as error:
            damage = damage or error
    assert damage is not None
    raise damage


def _why(store: OutputStore) -> str:
    found = contents_of(store)
    if found in (Contents.DELTA, Contents.ICEBERG):
        return f": this is {found.value}, whose own log says what is in it"
    if any(file.path.endswith(".parquet") for file in store.list("")):
        return ": written by an earlier version? The next export takes its files over"
    return ": nothing was exported here"
