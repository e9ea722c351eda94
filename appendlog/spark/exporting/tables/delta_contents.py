"""Reads what is in a Delta table; see `TableContents`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.object_store import delta_options
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta_log import table_errors
from appendlog.spark.exporting.tables.table_contents import (
    ROW_IDENTITY,
    CommitNote,
    FileInTable,
    QueueState,
    notes_of,
    offsets_between,
    queue_between,
)
from appendlog.spark.exporting.tables.table_names import lake_module, state_name

if TYPE_CHECKING:
    from deltalake import DeltaTable

_BOUNDS: Final = ("min", "max")


class DeltaContents:
    """The newest version of a Delta table.

    Args:
        store: Directory of the table.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: The table cannot be read.
    """

    cleaned_by: str = "this is a Delta table: DeltaTable(...).vacuum(full=True, dry_run=False)"

    def __init__(self, store: OutputStore) -> None:
        delta = lake_module("deltalake")
        self.url = store.url
        with table_errors(self.url):
            self._table: DeltaTable = delta.DeltaTable(
                store.url, storage_options=delta_options(store)
            )

    def queues(self) -> Sequence[QueueState]:
        """See `TableContents.queues`; Delta keeps the history of a table for 30 days."""
        with table_errors(self.url):
            history = self._table.history()
        is_whole = any(entry.get("version") == 0 for entry in history)
        noted = notes_of(
            [
                CommitNote.of(entry["amqplog"], entry["timestamp"])
                for entry in reversed(history)
                if isinstance(entry.get("amqplog"), dict)
            ]
        )
        known = {file.queue for file in self.files() if file.queue} | noted.keys()
        found = []
        for vhost, queue in sorted(known):
            name = state_name(vhost, queue)
            if self._table.transaction_version(name) is None:
                continue
            notes = noted.get((vhost, queue), ())
            incarnation = notes[-1].incarnation if notes else None
            end = self._table.transaction_version(f"{name}:{incarnation}")
            found.append(QueueState(vhost, queue, incarnation, end, notes, is_whole))
        return found

    def files(self) -> Sequence[FileInTable]:
        """See `TableContents.files`."""
        with table_errors(self.url):
            actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [_file(action) for action in actions]

    def rows(self, *, is_whole: bool) -> Iterator[pa.RecordBatch]:
        """See `TableContents.rows`."""
        columns = None if is_whole else list(ROW_IDENTITY)
        try:
            with table_errors(self.url):
                yield from pa.RecordBatchReader.from_stream(self._table.scan(columns))
        except pa.ArrowException as error:
            raise OutputError(f"{self.url}: {error}") from error


def _file(action: dict[str, Any]) -> FileInTable:
    low, high = (tuple(action.get(f"{at}.{name}") for name in ROW_IDENTITY) for at in _BOUNDS)
    path = unquote(action["path"])
    return FileInTable(
        path=None if "://" in path else path,
        name=path,
        size_bytes=action["size_bytes"],
        rows=action["num_records"] or 0,
        offsets=offsets_between(low, high),
        queue=queue_between(low, high),
    )
