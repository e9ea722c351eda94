"""A Delta table that exports add to; one table holds any number of queues.

How far a queue is in the table is the table's own state: each commit carries two application
transactions, which Delta keeps for ever and changes together with the rows or not at all:

    amqplog:<vhost>/<queue>:<incarnation>    version = end of the offsets that are in the table
    amqplog:<vhost>/<queue>                  version = 61 bits of the incarnation, 2 of --include

Delta-rs does not refuse a version that is not higher. What it refuses is a commit to a
snapshot behind which somebody else has committed under the same application id. So the end is
read from a snapshot, and the commit is made on that very snapshot: of two exports that planned
the same offsets one loses, whole. Commits of other queues, or of others, do not disturb: they
are rebased upon.

A table only goes forward: what is below the end of a queue is never added later.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.destination import (
    CorruptRange,
    ExportJob,
    OutputChangedError,
    WrittenFile,
)
from appendlog.spark.exporting.stores.contents import Contents, refuse_other_contents
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.delta_actions import STATISTICS, add_action
from appendlog.spark.exporting.tables.delta_columns import DeltaColumns
from appendlog.spark.exporting.tables.delta_log import sync_commits, table_errors
from appendlog.spark.exporting.tables.table_files import DATA_FOLDER, commit_note, table_file
from appendlog.spark.exporting.tables.table_names import (
    OtherIncarnationError,
    app_id,
    clean,
    lake_module,
    queue_id,
    sql_text,
)
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

COMMIT_TRIES: Final = 20
"""How often a commit begins again because somebody else changed another part of the table."""
_INCARNATION_BITS: Final = (1 << 61) - 1
_INCLUDES: Final = ("all", "acked", "unacked")


class DeltaDestination:
    """One queue's part of a Delta table, which the first commit creates; see `Destination`.

    What it says of the table is of one moment, until the next `covered`.

    Args:
        store: The table's directory.
        log: Whose messages they are.
        partition_by: Columns that the table is partitioned by: none, `date`, or `date`, `hour`.
        storage_options: Of the object store, under the names of delta-rs.

    Raises:
        LakeMissingError: The library is not installed.
    """

    def __init__(
        self,
        store: OutputStore,
        log: QueueLog,
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._delta = lake_module("deltalake")
        self._transactions = lake_module("deltalake.transaction")
        self._store = store
        self._log = log
        self._columns = DeltaColumns(store.url, partition_by)
        self._options = dict(storage_options or {})
        self._table: DeltaTable | None = None
        self._end: int | None = None
        self._include: str | None = None

    @property
    def store(self) -> OutputStore:
        """See `Destination.store`."""
        return self._store

    def covered(self) -> list[Range]:
        """Return all below the end of the queue's offsets in the table."""
        with table_errors(self._store.url):
            self._open()
            self._end = None
            if self._table is None:
                refuse_other_contents(self._store, Contents.DELTA)
            else:
                self._columns.check(self._table)
                self._end = self._committed_end(self._table)
                if self._end is None and self._has_rows(self._table):
                    raise OtherIncarnationError(self._store.url, self._log)
        return [(0, self._end)] if self._end else []

    def last_end(self) -> int | None:
        """See `Destination.last_end`."""
        self.covered()
        return self._end

    @contextmanager
    def begin(self, job: ExportJob) -> Iterator[str]:
        """Give the folder that the files of a run are in, before and after its commit.

        What a killed run has left in its folder is for the table's own VACUUM: only the table
        knows which files an older version of it still needs.
        """
        if self.covered() != list(job.covered):
            raise self._changed()
        self._check_include(job)
        folder = f"{DATA_FOLDER}/{job.job_id}"
        try:
            yield folder
        finally:
            if not self._may_be_committed(job):
                for file in self._store.list(folder):
                    self._store.delete(file.path)

    def commit(
        self,
        job: ExportJob,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
    ) -> None:
        """See `Destination.commit`; a commit whose answer was lost is not made twice."""
        actions = [add_action(table_file(self._store, file), self._log) for file in files]
        told = commit_note(self._log, job, files, gaps, corrupt)
        planned = self._end
        with table_errors(self._store.url):
            for _ in range(COMMIT_TRIES):
                table = self._open_or_create()
                self._columns.check(table)
                self._columns.add_missing(table)
                # Of the snapshot that is committed to, or two exports could both win.
                self._end = self._committed_end(table)
                if self._end != planned:
                    if self._is_committed(table, job):
                        break
                    raise self._changed()
                try:
                    self._write(table, actions, told, job)
                except self._delta.exceptions.CommitFailedError:
                    self._open()
                    continue
                break
            else:
                raise OutputError(f"{self._store.url}: others change the table again and again")
            self._sync()
            self._end = job.end

    # The table's state

    def _open(self) -> None:
        try:
            self._table = self._delta.DeltaTable(self._store.url, storage_options=self._options)
        except self._delta.exceptions.TableNotFoundError:
            self._table = None

    def _committed_end(self, table: "DeltaTable") -> int | None:
        version = table.transaction_version(queue_id(self._log))
        if version is not None and version >> 2 != self._incarnation:
            raise OtherIncarnationError(self._store.url, self._log)
        self._include = None if version is None else _INCLUDES[version & 3]
        return table.transaction_version(app_id(self._log))

    @property
    def _incarnation(self) -> int:
        return self._log.incarnation.int & _INCARNATION_BITS

    def _check_include(self, job: ExportJob) -> None:
        if self._include not in (None, job.include):
            raise OutputError(
                f"{self._store.url}: of queue {self._log.queue!r} it holds --include "
                f"{self._include}, and not {job.include}: what one leaves out is not what the "
                "other does; give another --out"
            )

    def _has_rows(self, table: "DeltaTable") -> bool:
        """Tell whether there are rows of the queue, by whatever way they came."""
        if not {"topic", "vhost"} <= {field.name for field in table.schema().fields}:
            return False
        topic, vhost = sql_text(clean(self._log.queue)), sql_text(clean(self._log.vhost))
        wanted = f"topic = {topic} AND vhost = {vhost}"
        rows = pa.RecordBatchReader.from_stream(table.scan(["topic"], wanted))
        return any(batch.num_rows for batch in rows)

    def _is_committed(self, table: "DeltaTable", job: ExportJob) -> bool:
        told = (entry.get("amqplog") for entry in table.history(COMMIT_TRIES * 10))
        return any(isinstance(entry, dict) and entry["job"] == job.job_id for entry in told)

    def _may_be_committed(self, job: ExportJob) -> bool:
        """Tell whether the table may have the files of a run: then they must stay."""
        try:
            self._open()
            return self._table is not None and self._is_committed(self._table, job)
        except (self._delta.exceptions.DeltaError, OSError):
            return True

    def _changed(self) -> OutputChangedError:
        end = "nothing" if self._end is None else f"offsets below {self._end}"
        return OutputChangedError(
            f"{self._store.url}: another export of queue {self._log.queue!r} was quicker, the "
            f"table has {end} of it now; nothing was added, run it again for what is new"
        )

    # The commit

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
        assert self._table is not None, "created, or somebody else has"
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

    def _write(
        self, table: "DeltaTable", actions: list["AddAction"], told: dict[str, Any], job: ExportJob
    ) -> None:
        include = _INCLUDES.index(job.include)
        transaction = self._transactions.Transaction
        properties = self._transactions.CommitProperties(
            custom_metadata={"amqplog": told},
            app_transactions=[
                transaction(app_id(self._log), job.end),
                transaction(queue_id(self._log), self._incarnation << 2 | include),
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
        """Make the commits since the snapshot durable."""
        sync_commits(self._store.url, -1 if self._table is None else self._table.version())
