"""Adds each batch of a stream exactly once to a Delta table, as a function for `foreachBatch`.

The table holds the number of the last batch of each query: `amqplog-stream:<query>` is an
application transaction whose version is that number, in the same commit as the rows. The version of
`amqplog-content:<query>` is the digest of what the batch contains. Delta-rs does not refuse an old
number, so this reads it first. Delta-rs does refuse the commit if another process has committed
under the same name since.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.batch_content import BatchContent, content_of
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.stream_sink import (
    BatchFile,
    earlier_batch,
    other_rows,
    query_id,
    write_batch,
)
from appendlog.spark.exporting.tables.delta_log import sync_commits, table_errors
from appendlog.spark.exporting.tables.delta_rules import DeltaRules, rules_of
from appendlog.spark.exporting.tables.table_names import lake_module
from metadata.names import encode_name

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

STREAMS_FOLDER: Final = "streams"
"""Folder with a folder for each query; a table's files stay where they were written."""
COMMIT_TRIES: Final = 20


class DeltaSink:
    """Adds each batch of a stream to a Delta table, exactly once.

    The first batch creates the table, with its columns.

    Args:
        store: Directory of the table; not an object store.
        query: Name of the query, instead of Spark's id.
        compare: Whether the rows of a batch that comes again must be the same.

    Raises:
        OutputError: The store is an object store.
        LakeMissingError: The library is not installed.
    """

    def __init__(
        self, store: OutputStore, query: str | None = None, *, compare: bool = True
    ) -> None:
        if "://" in store.url:
            raise OutputError(f"{store.url}: a stream can add to a Delta table in a directory only")
        self._store = store
        self._query = query
        self._compare = compare
        lake_module("deltalake")

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Add a batch; do nothing if it is the last one of the table.

        Args:
            rows: Rows of the batch.
            batch: Number of the batch.

        Raises:
            OutputError: No query called this function, the checkpoint is not that of the table, the
                table has other columns or rules that nothing here can keep, or it cannot be read or
                written.
        """
        query = self._query or query_id(rows)
        with table_errors(self._store.url):
            table = self._open()
            known = -1 if table is None else table.version()
            if table is None:
                table = self._create(rows)
            rules = rules_of(table, self._store.url)
            rows = rules.applied_to(rows)
            if self._has(table, query, batch):
                if self._compare:
                    self._compare_rows(table, query, batch, content_of(rows))
            else:
                self._check(rules, rows)
                folder = f"{STREAMS_FOLDER}/{encode_name(query)}"
                partition_by = [name for name in rules.partition_by if name in rows.columns]
                files, content = write_batch(rows, self._store, folder, partition_by)
                self._commit(table, query, batch, files, content)
            # Also if the batch was there: the process that wrote it may have died before this.
            sync_commits(self._store.url, known)

    def _open(self) -> "DeltaTable | None":
        delta = lake_module("deltalake")
        try:
            return delta.DeltaTable(self._store.url)  # type: ignore[no-any-return]
        except delta.exceptions.TableNotFoundError:
            return None

    def _create(self, rows: "DataFrame") -> "DeltaTable":
        delta = lake_module("deltalake")
        # Spark and Delta have the same JSON of a schema.
        fields = [{**field, "nullable": True} for field in _fields(rows.schema.json())]
        schema = delta.Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
        return delta.DeltaTable.create(  # type: ignore[no-any-return]
            self._store.url, schema, mode="ignore"
        )

    def _check(self, rules: DeltaRules, rows: "DataFrame") -> None:
        there = {name: field["type"] for name, field in rules.fields.items()}
        for field in _fields(rows.schema.json()):
            name, kind = field["name"], field["type"]
            if there.get(name) != kind:
                found = f"is {there[name]}, not {kind}" if name in there else "is not in the table"
                raise OutputError(f"{self._store.url}: column {name} of the stream {found}")

    def _has(self, table: "DeltaTable", query: str, batch: int) -> bool:
        committed = table.transaction_version(_batch_id(query))
        if committed is not None and committed > batch:
            raise earlier_batch(self._store.url, query, batch, committed)
        return committed == batch

    def _compare_rows(
        self, table: "DeltaTable", query: str, batch: int, content: BatchContent
    ) -> None:
        # Tables of earlier versions have no digest.
        if table.transaction_version(_content_id(query)) not in (None, content.digest):
            raise other_rows(self._store.url, query, batch)

    def _commit(
        self,
        table: "DeltaTable",
        query: str,
        batch: int,
        files: Sequence[BatchFile],
        content: BatchContent,
    ) -> None:
        delta = lake_module("deltalake")
        transaction = lake_module("deltalake.transaction")
        partition_by = table.metadata().partition_columns
        actions = [_add_action(transaction, file, partition_by) for file in files]
        properties = transaction.CommitProperties(
            app_transactions=[
                transaction.Transaction(_batch_id(query), batch),
                transaction.Transaction(_content_id(query), content.digest),
            ],
            custom_metadata={"amqplog.query": query, "amqplog.batch": str(batch)},
        )
        for _ in range(COMMIT_TRIES):
            try:
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    partition_by,
                    commit_properties=properties,
                )
            except delta.exceptions.CommitFailedError:
                table = self._open() or table
                if self._has(table, query, batch):
                    if self._compare:
                        self._compare_rows(table, query, batch, content)
                    return
                continue
            return
        raise OutputError(f"{self._store.url}: others change the table again and again")


def _batch_id(query: str) -> str:
    return f"amqplog-stream:{query}"


def _content_id(query: str) -> str:
    return f"amqplog-content:{query}"


def _fields(schema: str) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(schema)["fields"]
    return fields


def _add_action(transaction: Any, file: BatchFile, partition_by: Sequence[str]) -> Any:  # noqa: ANN401
    return transaction.AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={name: file.partition.get(name) for name in partition_by},
        modification_time=int(datetime.now(UTC).timestamp() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )
