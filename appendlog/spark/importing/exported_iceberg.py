"""Reads an Iceberg table that exports have written."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.iceberg_catalog import TABLE, open_catalog
from appendlog.spark.exporting.tables.table_names import lake_module
from appendlog.spark.importing.exported import (
    MESSAGE_COLUMNS,
    MESSAGES,
    ExportedQueue,
    NoEnvelopeError,
)
from appendlog.spark.importing.windows import rows_in_order

_PREFIX: Final = "amqplog:"


class ExportedIceberg:
    """Rows of an Iceberg table; see `Exported`.

    Args:
        store: Store of the output.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: There is no table.
    """

    def __init__(self, store: OutputStore) -> None:
        catalog = open_catalog(store, is_to_be_made=False)
        missing = lake_module("pyiceberg.exceptions").NoSuchTableError
        try:
            assert catalog is not None, "looked for before"
            self._table = catalog.load_table(TABLE)
        except missing as error:
            raise OutputError(f"{store.url}: no table {TABLE} in its catalog") from error
        self._url = store.url
        self._words = lake_module("pyiceberg.expressions")

    def queues(self) -> Sequence[ExportedQueue]:
        """See `Exported.queues`."""
        states = [
            json.loads(text)
            for name, text in self._table.properties.items()
            if name.startswith(_PREFIX)
        ]
        found = [
            ExportedQueue(
                state["vhost"], state["queue"], state["incarnation"], ((0, state["end"]),)
            )
            for state in states
        ]
        return sorted(found, key=lambda queue: (queue.vhost, queue.queue))

    def rows(self, queue: ExportedQueue, start: int, end: int) -> Iterator[pa.Table]:
        """See `Exported.rows`."""
        if "envelope" not in self._table.schema().column_names:
            raise NoEnvelopeError(self._url)
        words = self._words
        of_queue = words.And(
            words.EqualTo("topic", queue.queue), words.EqualTo("vhost", queue.vhost)
        )

        def scan(low: int, high: int) -> pa.Table:
            within = words.And(
                words.GreaterThanOrEqual("offset", low), words.LessThan("offset", high)
            )
            wanted = words.And(of_queue, within)
            try:
                rows = self._table.scan(wanted, tuple(MESSAGE_COLUMNS)).to_arrow()
            except (OSError, pa.ArrowException) as error:
                raise OutputError(f"{self._url}: {error}") from error
            return rows.select(MESSAGE_COLUMNS).cast(MESSAGES)

        yield from rows_in_order(scan, [(start, end)])
