"""An Iceberg table that exports add to; one table holds any number of queues.

How far a queue is in the table stands in the table's properties, and changes in the commit that
adds the rows, or not at all:

    amqplog:<vhost>/<queue>    {"vhost", "queue", "incarnation", "end", "include", "job"}

A commit asks that the table's snapshot is the one that the end was read with, and is not tried
again by the library (which would add the same rows on top of another export's): of two exports
that planned the same offsets one loses, whole. Commits of others are met by reading the end anew.

A table only goes forward: what is below the end of a queue is never added later.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.destination import (
    CorruptRange,
    ExportJob,
    OutputChangedError,
    WrittenFile,
)
from appendlog.spark.exporting.stores.contents import Contents, refuse_other_contents
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.iceberg_catalog import TABLE, open_catalog
from appendlog.spark.exporting.tables.iceberg_partitions import check_partitions, partition_new
from appendlog.spark.exporting.tables.table_files import DATA_FOLDER, commit_note
from appendlog.spark.exporting.tables.table_names import (
    OtherIncarnationError,
    clean,
    lake_module,
    queue_id,
)
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range
from appendlog.spark.schema.columns import EXPORT_ROWS

if TYPE_CHECKING:
    from pyiceberg.table import Table

COMMIT_TRIES: Final = 20
"""How often a commit begins again because somebody else changed another part of the table."""
_SKIPPED_BY: Final = ("topic", "vhost", "offset", "timestamp")
_METRICS: Final = "write.metadata.metrics"


class IcebergDestination:
    """One queue's part of an Iceberg table, which the first commit creates; see `Destination`.

    The catalog is a SQLite file in the output.

    Args:
        store: The output, a directory.
        log: Whose messages they are.
        partition_by: How the table is partitioned, for its whole life.

    Raises:
        LakeMissingError: The library is not installed.
        OutputError: The output is no directory.
    """

    def __init__(
        self, store: OutputStore, log: QueueLog, partition_by: PartitionBy | None = None
    ) -> None:
        self._errors_of = lake_module("pyiceberg.exceptions")
        self._store = store
        self._log = log
        self._partition_by = partition_by
        self._table: Table | None = None
        self._end: int | None = None
        self._include: str | None = None

    @property
    def store(self) -> OutputStore:
        """See `Destination.store`."""
        return self._store

    def covered(self) -> list[Range]:
        """Return all below the end of the queue's offsets in the table."""
        with self._errors():
            self._open()
            if self._table is None:
                refuse_other_contents(self._store, Contents.ICEBERG)
            self._end = self._committed_end()
        return [(0, self._end)] if self._end else []

    def last_end(self) -> int | None:
        """See `Destination.last_end`."""
        self.covered()
        return self._end

    @contextmanager
    def begin(self, job: ExportJob) -> Iterator[str]:
        """Give the folder that the files of a run are in, before and after its commit.

        What a killed run has left there is for a removal of orphan files, such as Spark's.
        """
        if self.covered() != list(job.covered):
            raise self._changed()
        if self._include not in (None, job.include):
            raise OutputError(
                f"{self._store.url}: of queue {self._log.queue!r} it holds --include "
                f"{self._include}, and not {job.include}: what one leaves out is not what the "
                "other does; give another --out"
            )
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
        paths = [f"{self._store.url}/{file.path}" for file in files]
        note = {"amqplog": json.dumps(commit_note(self._log, job, files, gaps, corrupt))}
        planned = self._end
        with self._errors():
            for _ in range(COMMIT_TRIES):
                table = self._open_or_create()
                # Of the snapshot that is committed to, or two exports could both win.
                self._end = self._committed_end()
                if self._end != planned:
                    if self._state().get("job") == job.job_id:
                        break
                    raise self._changed()
                try:
                    self._write(table, paths, note, job)
                except self._errors_of.CommitFailedException:
                    self._open()
                    continue
                break
            else:
                raise OutputError(f"{self._store.url}: others change the table again and again")
            self._open()
            self._end = self._committed_end()
            self._sync()

    # The table's state

    def _open(self) -> None:
        try:
            catalog = open_catalog(self._store, is_to_be_made=False)
            self._table = None if catalog is None else catalog.load_table(TABLE)
            if self._table is not None:
                check_partitions(self._table, self._store.url, self._partition_by)
        except self._errors_of.NoSuchTableError:
            self._table = None

    def _state(self) -> dict[str, Any]:
        """Return what the table says of the queue; nothing when it has nothing of it."""
        if self._table is None:
            return {}
        state: dict[str, Any] = json.loads(self._table.properties.get(queue_id(self._log), "{}"))
        return state

    def _committed_end(self) -> int | None:
        state = self._state()
        if state and state["incarnation"] != str(self._log.incarnation):
            raise OtherIncarnationError(self._store.url, self._log)
        self._include = state.get("include")
        return state.get("end")

    def _may_be_committed(self, job: ExportJob) -> bool:
        """Tell whether the table may have the files of a run: then they must stay."""
        try:
            with self._errors():
                self._open()
                return bool(self._state().get("job") == job.job_id)
        except OutputError:
            return True

    def _changed(self) -> OutputChangedError:
        end = "nothing" if self._end is None else f"offsets below {self._end}"
        return OutputChangedError(
            f"{self._store.url}: another export of queue {self._log.queue!r} was quicker, the "
            f"table has {end} of it now; nothing was added, run it again for what is new"
        )

    # The commit

    def _open_or_create(self) -> "Table":
        if self._table is None:
            refuse_other_contents(self._store, Contents.ICEBERG)
            catalog = open_catalog(self._store, is_to_be_made=True)
            assert catalog is not None, "made"
            creation = catalog.create_table_transaction(
                TABLE,
                schema=EXPORT_ROWS.arrow,
                properties={
                    "format-version": "2",
                    f"{_METRICS}.default": "none",
                    **{f"{_METRICS}.column.{name}": "full" for name in _SKIPPED_BY},
                },
            )
            partition_new(creation, self._partition_by)
            # Another export may create it just now.
            taken = self._errors_of.TableAlreadyExistsError, self._errors_of.CommitFailedException
            with suppress(*taken):
                creation.commit_transaction()
            self._open()
        assert self._table is not None, "created, or somebody else has"
        return self._table

    def _write(
        self, table: "Table", paths: list[str], note: dict[str, str], job: ExportJob
    ) -> None:
        # Of this object only: the library would add the rows once more, behind those of another.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        state = {
            "vhost": clean(self._log.vhost),
            "queue": clean(self._log.queue),
            "incarnation": str(self._log.incarnation),
            "end": job.end,
            "include": job.include,
            "job": job.job_id,
        }
        with table.transaction() as transaction:
            transaction.set_properties({queue_id(self._log): json.dumps(state)})
            transaction.add_files(paths, snapshot_properties=note)

    def _sync(self) -> None:
        """Make what a commit consists of durable: pyiceberg leaves that to the kernel."""
        assert self._table is not None, "committed to"
        folder = Path(self._table.metadata_location.removeprefix("file://")).parent
        for path in (*folder.iterdir(), folder, folder.parent, folder.parent.parent):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what the libraries raise into one line."""
        failures = (lake_module("sqlalchemy.exc").SQLAlchemyError, OSError, ValueError)
        try:
            yield
        except (OutputError, self._errors_of.CommitFailedException):
            raise
        except failures as error:
            line = " ".join(str(error).split())
            raise OutputError(f"{self._store.url}: {line}") from error
