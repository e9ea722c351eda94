"""Reads a Delta table that exports have written."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.object_store import delta_options
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta_log import table_errors
from appendlog.spark.exporting.tables.table_names import lake_module, sql_text
from appendlog.spark.importing.exported import (
    MESSAGE_COLUMNS,
    MESSAGES,
    ExportedQueue,
    NoEnvelopeError,
)
from appendlog.spark.importing.windows import rows_in_order
from appendlog.spark.planning.ranges import Range

if TYPE_CHECKING:
    from deltalake import DeltaTable


class ExportedDelta:
    """Rows of a Delta table; see `Exported`.

    Args:
        store: Directory of the table.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: The table cannot be read.
    """

    def __init__(self, store: OutputStore) -> None:
        delta = lake_module("deltalake")
        self._url = store.url
        with table_errors(self._url):
            self._table: DeltaTable = delta.DeltaTable(
                store.url, storage_options=delta_options(store)
            )

    def queues(self) -> Sequence[ExportedQueue]:
        """See `Exported.queues`."""
        bounds: dict[tuple[str, str], Range] = {}
        for batch in self._scan(["vhost", "topic", "offset"], None):
            table = pa.Table.from_batches([batch])
            found = table.group_by(["vhost", "topic"]).aggregate(
                [("offset", "min"), ("offset", "max")]
            )
            for row in found.to_pylist():
                key = (row["vhost"], row["topic"])
                low, high = bounds.get(key, (row["offset_min"], row["offset_max"] + 1))
                bounds[key] = (min(low, row["offset_min"]), max(high, row["offset_max"] + 1))
        notes = self._notes()
        return [
            ExportedQueue(
                vhost, queue, self._identity(vhost, queue, notes), (bounds[vhost, queue],)
            )
            for vhost, queue in sorted(bounds)
        ]

    def rows(self, queue: ExportedQueue, start: int, end: int) -> Iterator[pa.Table]:
        """See `Exported.rows`."""
        if "envelope" not in {field.name for field in self._table.schema().fields}:
            raise NoEnvelopeError(self._url)
        of_queue = f"topic = {sql_text(queue.queue)} AND vhost = {sql_text(queue.vhost)}"

        def scan(low: int, high: int) -> pa.Table:
            # A literal stands before `offset`, which is a keyword of SQL.
            wanted = f'{of_queue} AND "offset" >= {low} AND "offset" < {high}'
            batches = list(self._scan(MESSAGE_COLUMNS, wanted))
            if not batches:
                return MESSAGES.empty_table()
            rows = pa.Table.from_batches(batches).select(MESSAGE_COLUMNS).cast(MESSAGES)
            if pc.any(pc.is_null(rows.column("envelope"))).as_py():
                raise NoEnvelopeError(self._url)
            return rows

        yield from rows_in_order(scan, [(start, end)])

    def _scan(self, columns: list[str], wanted: str | None) -> Iterator[pa.RecordBatch]:
        try:
            with table_errors(self._url):
                yield from pa.RecordBatchReader.from_stream(self._table.scan(columns, wanted))
        except pa.ArrowException as error:
            raise OutputError(f"{self._url}: {error}") from error

    def _notes(self) -> dict[tuple[str, str], str]:
        """Return the incarnation of each queue, as far as the table's history has it."""
        notes: dict[tuple[str, str], str] = {}
        for entry in self._table.history():
            note: Any = entry.get("amqplog")
            if isinstance(note, dict):
                notes.setdefault((note["vhost"], note["queue"]), note["incarnation"])
        return notes

    def _identity(self, vhost: str, queue: str, notes: dict[tuple[str, str], str]) -> str:
        return notes.get((vhost, queue), f"{self._url} {vhost}/{queue}")
