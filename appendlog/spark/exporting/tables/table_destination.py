"""One queue's part of a table that exports add to: what Delta and Iceberg have in common.

The table itself holds the end of each queue's offsets, and one commit changes that end together
with the rows. An export reads the end from a snapshot and commits to that very snapshot. So if two
exports planned the same offsets, one of them loses, whole.

A table only goes forward: offsets below the end of a queue are never added later.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, TypeVar

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.destination import (
    CorruptRange,
    Exported,
    ExportJob,
    OutputChangedError,
    WrittenFile,
)
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.table_files import DATA_FOLDER
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.planning.ranges import Range

COMMIT_TRIES: Final = 20
"""Tries of a commit while another writer changes other parts of the table."""

_Table = TypeVar("_Table")


class TableDestination(ABC, Generic[_Table]):
    """Adds files to a table, which the first commit creates; see `Destination`.

    Its state is that of one moment: `covered` reads it again.

    Args:
        store: The table's directory, or place in an object store.
        log: Queue whose messages the files hold.
        conflict: Error of the table's library for a commit to a snapshot that is not the newest.
    """

    def __init__(self, store: OutputStore, log: QueueLog, conflict: type[Exception]) -> None:
        self._store = store
        self._log = log
        self._conflict = conflict
        self._table: _Table | None = None
        self._end: int | None = None
        self._include: str | None = None

    @property
    def store(self) -> OutputStore:
        """See `Destination.store`."""
        return self._store

    def covered(self) -> list[Range]:
        """Return all offsets below the end that the table has of the queue."""
        with self._errors():
            self._open()
            self._end = self._checked_end()
        return [(0, self._end)] if self._end else []

    def last_end(self) -> int | None:
        """See `Destination.last_end`."""
        self.covered()
        return self._end

    def exported(self) -> Exported | None:
        """See `Destination.exported`."""
        self.covered()
        newest_ns = None if self._table is None else self._newest_ns(self._table)
        return Exported(self._end, newest_ns) if self._end and newest_ns is not None else None

    @contextmanager
    def begin(self, job: ExportJob) -> Iterator[str]:
        """Yield the folder of the run's files: they stay there after the commit.

        Files that a killed run has left in its folder stay too. Only the table knows which files
        an older version of it still needs, so its own clean-up removes them: VACUUM of Delta, the
        removal of orphan files of Iceberg.

        Raises:
            OutputChangedError: `job.covered` is not what the table has now.
            OutputError: The table holds another choice of messages than `job.include`.
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
        """See `Destination.commit`; a commit whose reply was lost is not made twice."""
        add = self._prepared(job, files, gaps, corrupt)
        planned = self._end
        with self._errors():
            for _ in range(COMMIT_TRIES):
                try:
                    table = self._open_or_create()
                    # Read from the snapshot that is committed to, or two exports could both win.
                    self._end = self._committed_end(table)
                    if self._end != planned:
                        if self._is_committed(table, job):
                            break
                        raise self._changed()
                    add(table)
                except self._conflict:
                    self._open()
                    continue
                break
            else:
                raise OutputError(f"{self._store.url}: others change the table again and again")
            self._sync()
            self._end = job.end

    def _changed(self) -> OutputChangedError:
        end = "nothing" if self._end is None else f"offsets below {self._end}"
        return OutputChangedError(
            f"{self._store.url}: another export of queue {self._log.queue!r} was quicker, the "
            f"table has {end} of it now; nothing was added, run it again for what is new"
        )

    def _may_be_committed(self, job: ExportJob) -> bool:
        """Return whether the table may have the files of a run: then they must stay."""
        try:
            with self._errors():
                self._open()
                return self._table is not None and self._is_committed(self._table, job)
        except (OutputError, self._conflict):
            return True

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Turn errors of the table's library into an OutputError of one line."""

    @abstractmethod
    def _open(self) -> None:
        """Set `_table` to the newest snapshot; to None if there is no table."""

    @abstractmethod
    def _open_or_create(self) -> _Table:
        """Return the table that is open, or create it; it has all columns of rows then.

        Raises the library's error for a conflict if another writer was quicker.
        """

    @abstractmethod
    def _checked_end(self) -> int | None:
        """Return the end that the open table has of the queue; None if it has nothing.

        Raises:
            OutputError: The table, or the place for a new one, cannot take the queue's rows.
        """

    @abstractmethod
    def _committed_end(self, table: _Table) -> int | None:
        """Return the end in one snapshot; set `_include` to the choice that its rows are of.

        Raises:
            OtherIncarnationError: The rows are of a queue of the same name that was deleted.
        """

    @abstractmethod
    def _newest_ns(self, table: _Table) -> int | None:
        """Return the highest append time of the last commit with rows; None if it is unknown."""

    @abstractmethod
    def _is_committed(self, table: _Table, job: ExportJob) -> bool:
        """Return whether a snapshot has the commit of a run."""

    @abstractmethod
    def _prepared(
        self,
        job: ExportJob,
        files: Sequence[WrittenFile],
        gaps: Sequence[Range],
        corrupt: Sequence[CorruptRange],
    ) -> Callable[[_Table], None]:
        """Return the function that commits the files and the new end to one snapshot."""

    @abstractmethod
    def _sync(self) -> None:
        """Make the commit durable, where the library leaves that to the kernel."""
