"""Adds exported files to an Iceberg table, which holds any number of queues.

How far a queue is in the table stands in the table's properties, and changes in the commit that
adds the rows, or not at all:

    amqplog:<vhost>/<queue>    {"vhost", "queue", "incarnation", "end", "newest_ns", "include",
                                "job"}

A commit requires that the table's snapshot is the one that the end was read from. The library must
not try it again by itself: that would add the same rows on top of another export's. After commits
of other writers, the end is read again.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.destination import CorruptRange, ExportJob, WrittenFile
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS, Partitioning
from appendlog.spark.exporting.stores.contents import Contents, refuse_other_contents
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.iceberg_catalog import TABLE, open_catalog
from appendlog.spark.exporting.tables.iceberg_columns import (
    add_missing,
    check_columns,
    table_schema,
)
from appendlog.spark.exporting.tables.iceberg_partitions import check_partitions, partition_new
from appendlog.spark.exporting.tables.table_destination import TableDestination
from appendlog.spark.exporting.tables.table_files import commit_note, sync_paths
from appendlog.spark.exporting.tables.table_names import (
    OtherIncarnationError,
    lake_module,
    queue_id,
)
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range
from metadata.name_texts import replaced_text

if TYPE_CHECKING:
    from pyiceberg.table import Table

_SKIPPED_BY: Final = ("topic", "vhost", "offset", "timestamp")
_METRICS: Final = "write.metadata.metrics"


class IcebergDestination(TableDestination["Table"]):
    """One queue's part of an Iceberg table, which the first commit creates; see `Destination`.

    The catalog is a SQLite file in the output.

    Args:
        store: The output, a directory.
        log: Queue whose messages the files hold.
        partitioning: How the table is partitioned, for its whole life.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: The output is no directory.
    """

    def __init__(
        self, store: OutputStore, log: QueueLog, partitioning: Partitioning = NO_PARTITIONS
    ) -> None:
        self._errors_of = lake_module("pyiceberg.exceptions")
        super().__init__(store, log, self._errors_of.CommitFailedException)
        self._partitioning = partitioning

    def _open(self) -> None:
        try:
            catalog = open_catalog(self._store, is_to_be_made=False)
            self._table = None if catalog is None else catalog.load_table(TABLE)
            if self._table is not None:
                check_partitions(self._table, self._store.url, self._partitioning)
                check_columns(self._table, self._store.url)
        except self._errors_of.NoSuchTableError:
            self._table = None

    def _state(self, table: "Table") -> dict[str, Any]:
        """Return what the table's properties hold of the queue; empty if they have nothing."""
        state: dict[str, Any] = json.loads(table.properties.get(queue_id(self._log), "{}"))
        return state

    def _checked_end(self) -> int | None:
        if self._table is None:
            refuse_other_contents(self._store, Contents.ICEBERG)
            return None
        return self._committed_end(self._table)

    def _committed_end(self, table: "Table") -> int | None:
        state = self._state(table)
        if state and state["incarnation"] != str(self._log.incarnation):
            raise OtherIncarnationError(self._store.url, self._log)
        self._include = state.get("include")
        return state.get("end")

    def _newest_ns(self, table: "Table") -> int | None:
        return self._state(table).get("newest_ns")

    def _is_committed(self, table: "Table", job: ExportJob) -> bool:
        return bool(self._state(table).get("job") == job.job_id)

    def _open_or_create(self) -> "Table":
        if self._table is None:
            refuse_other_contents(self._store, Contents.ICEBERG)
            catalog = open_catalog(self._store, is_to_be_made=True)
            assert catalog is not None, "made"
            creation = catalog.create_table_transaction(
                TABLE,
                schema=table_schema(self._partitioning),
                properties={
                    "format-version": "2",
                    f"{_METRICS}.default": "none",
                    **{
                        f"{_METRICS}.column.{name}": "full"
                        for name in (*_SKIPPED_BY, *self._partitioning.sources)
                    },
                },
            )
            partition_new(creation, self._partitioning)
            # Another export may create it at this moment.
            taken = self._errors_of.TableAlreadyExistsError, self._errors_of.CommitFailedException
            with suppress(*taken):
                creation.commit_transaction()
            self._open()
        assert self._table is not None, "created, or another export has"
        add_missing(self._table)
        return self._table

    def _prepared(
        self,
        job: ExportJob,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
    ) -> Callable[["Table"], None]:
        paths = [f"{self._store.url}/{file.path}" for file in files]
        note = {"amqplog": json.dumps(commit_note(self._log, job, files, gaps, corrupt))}
        times = [file.max_timestamp_ns for file in files]
        return lambda table: self._write(table, paths, note, job, times)

    def _write(
        self,
        table: "Table",
        paths: list[str],
        note: dict[str, str],
        job: ExportJob,
        times_ns: Sequence[int],
    ) -> None:
        # Of this object only: the library would add the rows again, after those of another export.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        state = {
            "vhost": replaced_text(self._log.vhost),
            "queue": replaced_text(self._log.queue),
            "incarnation": str(self._log.incarnation),
            "end": job.end,
            "newest_ns": max(times_ns, default=self._newest_ns(table)),
            "include": job.include,
            "job": job.job_id,
        }
        with table.transaction() as transaction:
            transaction.set_properties({queue_id(self._log): json.dumps(state)})
            transaction.add_files(paths, snapshot_properties=note)

    def _sync(self) -> None:
        self._open()
        assert self._table is not None, "the commit was to it"
        folder = Path(self._table.metadata_location.removeprefix("file://")).parent
        sync_paths([*folder.iterdir(), folder, folder.parent, folder.parent.parent])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        failures = (lake_module("sqlalchemy.exc").SQLAlchemyError, OSError, ValueError)
        try:
            yield
        except (OutputError, self._errors_of.CommitFailedException):
            raise
        except failures as error:
            line = " ".join(str(error).split())
            raise OutputError(f"{self._store.url}: {line}") from error
