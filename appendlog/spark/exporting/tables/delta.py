"""Adds exported files to a Delta table, which holds any number of queues.

How far a queue is in the table is state of the table itself: each commit carries two application
transactions, which Delta keeps for ever and changes together with the rows or not at all:

    amqplog:<vhost>/<queue>:<incarnation>    version = end of the offsets that are in the table
    amqplog:<vhost>/<queue>                  version = 61 bits of the incarnation, 2 of --include

A third one, `amqplog-newest:<vhost>/<queue>:<incarnation>`, has the append time of the last row.

Delta-rs does not refuse a version that is not higher. It refuses a commit to a snapshot after
which another writer has committed under the same application id. Commits of other queues, or of
other programs, do not disturb: delta-rs puts this commit on top of them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from appendlog.spark.exporting.destination import CorruptRange, ExportJob, WrittenFile
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS, Partitioning
from appendlog.spark.exporting.stores.contents import Contents, refuse_other_contents
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta_actions import STATISTICS, add_action
from appendlog.spark.exporting.tables.delta_columns import DeltaColumns
from appendlog.spark.exporting.tables.delta_log import sync_commits, table_errors
from appendlog.spark.exporting.tables.table_destination import COMMIT_TRIES, TableDestination
from appendlog.spark.exporting.tables.table_files import commit_note, table_file
from appendlog.spark.exporting.tables.table_names import (
    OtherIncarnationError,
    app_id,
    lake_module,
    newest_id,
    queue_id,
    sql_text,
)
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range
from metadata.name_texts import replaced_text

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

_INCARNATION_BITS: Final = (1 << 61) - 1
_INCLUDES: Final = ("all", "acked", "unacked")


class DeltaDestination(TableDestination["DeltaTable"]):
    """One queue's part of a Delta table, which the first commit creates; see `Destination`.

    Args:
        store: The table's directory, or place in an object store.
        log: Queue whose messages the files hold.
        partitioning: How the table is partitioned, for its whole life.
        storage_options: Options of the object store, under the names of delta-rs.

    Raises:
        LakeMissingError: The library is not installed.
    """

    def __init__(
        self,
        store: OutputStore,
        log: QueueLog,
        partitioning: Partitioning = NO_PARTITIONS,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._delta = lake_module("deltalake")
        self._transactions = lake_module("deltalake.transaction")
        super().__init__(store, log, self._delta.exceptions.CommitFailedError)
        self._columns = DeltaColumns(store.url, partitioning)
        self._options = dict(storage_options or {})

    def _errors(self) -> AbstractContextManager[None]:
        return table_errors(self._store.url)

    def _open(self) -> None:
        try:
            self._table = self._delta.DeltaTable(self._store.url, storage_options=self._options)
        except self._delta.exceptions.TableNotFoundError:
            self._table = None

    def _checked_end(self) -> int | None:
        if self._table is None:
            refuse_other_contents(self._store, Contents.DELTA)
            return None
        self._columns.check(self._table)
        end = self._committed_end(self._table)
        if end is None and self._has_rows(self._table):
            raise OtherIncarnationError(self._store.url, self._log)
        return end

    def _committed_end(self, table: "DeltaTable") -> int | None:
        version = table.transaction_version(queue_id(self._log))
        if version is not None and version >> 2 != self._incarnation:
            raise OtherIncarnationError(self._store.url, self._log)
        self._include = None if version is None else _INCLUDES[version & 3]
        return table.transaction_version(app_id(self._log))

    def _newest_ns(self, table: "DeltaTable") -> int | None:
        return table.transaction_version(newest_id(self._log))

    @property
    def _incarnation(self) -> int:
        return self._log.incarnation.int & _INCARNATION_BITS

    def _has_rows(self, table: "DeltaTable") -> bool:
        """Return whether there are rows of the queue, whichever program added them."""
        if not {"topic", "vhost"} <= {field.name for field in table.schema().fields}:
            return False
        topic = sql_text(replaced_text(self._log.queue))
        vhost = sql_text(replaced_text(self._log.vhost))
        wanted = f"topic = {topic} AND vhost = {vhost}"
        rows = pa.RecordBatchReader.from_stream(table.scan(["topic"], wanted))
        return any(batch.num_rows for batch in rows)

    def _is_committed(self, table: "DeltaTable", job: ExportJob) -> bool:
        notes = (entry.get("amqplog") for entry in table.history(COMMIT_TRIES * 10))
        return any(isinstance(note, dict) and note["job"] == job.job_id for note in notes)

    def _open_or_create(self) -> "DeltaTable":
        if self._table is None:
            try:
                self._create()
            except self._delta.exceptions.DeltaError:
                # Another export may just have created it.
                self._open()
                if self._table is None:
                    raise
            self._open()
        assert self._table is not None, "created, or another export has"
        self._columns.check(self._table)
        self._columns.add_missing(self._table)
        return self._table

    def _create(self) -> None:
        refuse_other_contents(self._store, Contents.DELTA)
        self._delta.DeltaTable.create(
            self._store.url,
            self._columns.schema(),
            mode="ignore",
            partition_by=self._columns.partition_by,
            description="Messages of amqp-server, a row each",
            configuration={"delta.dataSkippingStatsColumns": STATISTICS},
            storage_options=self._options,
        )

    def _prepared(
        self,
        job: ExportJob,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
    ) -> Callable[["DeltaTable"], None]:
        actions = [add_action(table_file(self._store, file), self._log) for file in files]
        note = commit_note(self._log, job, files, gaps, corrupt)
        times = [file.max_timestamp_ns for file in files]
        return lambda table: self._write(table, actions, note, job, times)

    def _write(
        self,
        table: "DeltaTable",
        actions: list["AddAction"],
        note: dict[str, Any],
        job: ExportJob,
        times_ns: Sequence[int],
    ) -> None:
        include = _INCLUDES.index(job.include)
        transaction = self._transactions.Transaction
        properties = self._transactions.CommitProperties(
            custom_metadata={"amqplog": note},
            app_transactions=[
                transaction(app_id(self._log), job.end),
                transaction(queue_id(self._log), self._incarnation << 2 | include),
                *(transaction(newest_id(self._log), max(times_ns)) for _ in times_ns[:1]),
            ],
        )
        table.create_write_transaction(
            list(actions),
            "append",
            table.schema(),
            self._columns.partition_by,
            commit_properties=properties,
        )

    def _sync(self) -> None:
        sync_commits(self._store.url, -1 if self._table is None else self._table.version())
