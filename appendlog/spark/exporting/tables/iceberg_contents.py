"""Reads what is in an Iceberg table; see `TableContents`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.iceberg_catalog import TABLE, open_catalog
from appendlog.spark.exporting.tables.table_contents import (
    ROW_IDENTITY,
    CommitNote,
    FileInTable,
    QueueState,
    notes_of,
    offsets_between,
    queue_between,
)
from appendlog.spark.exporting.tables.table_names import lake_module

if TYPE_CHECKING:
    from pyiceberg.table import Table

_STATE_PREFIX = "amqplog:"


class IcebergContents:
    """The newest snapshot of an Iceberg table.

    Args:
        store: Directory of the output.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: There is no table, or the output is no directory.
    """

    cleaned_by: str = "this is an Iceberg table: remove_orphan_files of Spark's Iceberg"

    def __init__(self, store: OutputStore) -> None:
        catalog = open_catalog(store, is_to_be_made=False)
        missing = lake_module("pyiceberg.exceptions").NoSuchTableError
        self.url = store.url
        try:
            assert catalog is not None, "looked for before"
            self._table: Table = catalog.load_table(TABLE)
        except missing as error:
            raise OutputError(f"{store.url}: no table {TABLE} in its catalog") from error

    def queues(self) -> Sequence[QueueState]:
        """See `TableContents.queues`; expired snapshots have lost their notes."""
        snapshots = sorted(self._table.metadata.snapshots, key=lambda each: each.timestamp_ms)
        # Snapshots expire from the oldest on: if the first one is there, all are.
        is_whole = any(each.parent_snapshot_id is None for each in snapshots)
        noted = notes_of(
            [
                CommitNote.of(json.loads(str(note)), snapshot.timestamp_ms)
                for snapshot in snapshots
                if snapshot.summary is not None and (note := snapshot.summary["amqplog"])
            ]
        )
        found = []
        for name, text in self._table.properties.items():
            if name.startswith(_STATE_PREFIX):
                state = json.loads(text)
                vhost, queue, incarnation = state["vhost"], state["queue"], state["incarnation"]
                notes = noted.get((vhost, queue), ())
                found.append(QueueState(vhost, queue, incarnation, state["end"], notes, is_whole))
        return sorted(found, key=lambda state: (state.vhost, state.queue))

    def files(self) -> Sequence[FileInTable]:
        """See `TableContents.files`."""
        entries = self._table.inspect.files().to_pylist()
        return [self._file(entry) for entry in entries if entry["content"] == 0]

    def rows(self, *, is_whole: bool) -> Iterator[pa.RecordBatch]:
        """See `TableContents.rows`."""
        columns = ("*",) if is_whole else ROW_IDENTITY
        try:
            yield from self._table.scan(selected_fields=columns).to_arrow_batch_reader()
        except (OSError, ValueError, pa.ArrowException) as error:
            line = " ".join(str(error).split())
            raise OutputError(f"{self.url}: {line}") from error

    def _file(self, entry: Mapping[str, Any]) -> FileInTable:
        name = entry["file_path"].removeprefix("file://")
        root = f"{self.url}/"
        metrics = entry["readable_metrics"]
        low, high = (
            tuple(metrics[column][at] for column in ROW_IDENTITY)
            for at in ("lower_bound", "upper_bound")
        )
        return FileInTable(
            path=name.removeprefix(root) if name.startswith(root) else None,
            name=name,
            size_bytes=entry["file_size_in_bytes"],
            rows=entry["record_count"],
            offsets=offsets_between(low, high),
            queue=queue_between(low, high),
        )
