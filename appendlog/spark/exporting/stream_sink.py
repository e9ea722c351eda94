"""Writes each batch of a stream exactly once to Parquet files, as a function for `foreachBatch`.

Spark's own file sink lists the valid files in `_spark_metadata`, which other readers ignore. This
sink moves files into place only after the commit of their batch, so any reader sees the right rows:

    _streams/<query>/work-<batch>/<uuid>.parquet    written by tasks, any number of times
    _streams/<query>/<batch>.json                   created if absent: the commit
    part-<query>-<batch>-<n>.parquet                the same files, moved after the commit

After a crash, Spark repeats a batch with the same number of the same query. Then the sink finds its
commit, writes nothing, and completes the moves. Spark keeps the query's id in its checkpoint: a
query with a new checkpoint is another query, without commits.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.stores.store import OutputStore
from metadata.names import encode_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STREAMS_FOLDER: Final = "_streams"
"""Folder of commits and unfinished files; readers ignore names that begin with `_`."""
VERSION: Final = 1
RECORDS_KEPT: Final = 1000
"""Commits that are kept; Spark can only repeat the last one."""
ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 32 << 20
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
_RESULT: Final = "path string, rows bigint, size_bytes bigint"


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file that a task has written.

    Attributes:
        path: Path in the store.
        rows: Number of rows, at least 1.
        size_bytes: Size of the file in bytes.
    """

    path: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of one query, and its output.

    Attributes:
        store: Store of the output.
        query: Id of the query, the same after restarts; safe as a file name.
        number: Number of the batch.
    """

    store: OutputStore
    query: str
    number: int

    @property
    def work_folder(self) -> str:
        """Return the folder that tasks write to."""
        return f"{STREAMS_FOLDER}/{self.query}/work-{self.number:020d}"

    def is_committed(self) -> bool:
        """Return whether the batch is in the output; completes the moves of a committed batch.

        Raises:
            OutputError: The batch was committed, but files of it are gone.
            OSError: The store failed.
        """
        try:
            record = json.loads(self.store.read(self._record(self.number)))
        except FileNotFoundError:
            return self._is_behind()
        for at, file in enumerate(record["files"]):
            try:
                self.store.move(file["path"], self._place(at))
            except FileNotFoundError as error:
                raise OutputError(
                    f"{self.store.url}: batch {self.number} was committed with the file "
                    f"{self._place(at)}, which someone has removed"
                ) from error
        return True

    def _is_behind(self) -> bool:
        """Return whether later batches of the query are committed; then this one must be skipped.

        Its files would replace those of the batch that had its number. The commit of the last batch
        exists, unless the query has begun, or has begun again.
        """
        folder = f"{STREAMS_FOLDER}/{self.query}"
        try:
            if self.number:
                self.store.read(self._record(self.number - 1))
                return False
        except FileNotFoundError:
            pass
        return any(
            file.path > self._record(self.number) and file.path.endswith(".json")
            for file in self.store.list(folder)
            if file.path.count("/") == folder.count("/") + 1
        )

    def commit(self, files: Sequence[BatchFile]) -> None:
        """Commit the files of the batch, unless another process has committed its own first.

        Raises:
            OSError: The store failed; `is_committed` says whether the batch is committed.
        """
        record = {
            "version": VERSION,
            "query": self.query,
            "batch": self.number,
            "rows": sum(file.rows for file in files),
            "files": [asdict(file) for file in files],
        }
        # If another process of the same query was first, its files are the batch.
        with suppress(FileExistsError):
            self.store.create(self._record(self.number), json.dumps(record).encode() + b"\n")
        self.is_committed()
        # Only files of this batch: another process may be writing the next one already.
        for left in self.store.list(self.work_folder):
            self.store.delete(left.path)
        if self.number >= RECORDS_KEPT:
            self.store.delete(self._record(self.number - RECORDS_KEPT))

    def _record(self, number: int) -> str:
        return f"{STREAMS_FOLDER}/{self.query}/{number:020d}.json"

    def _place(self, at: int) -> str:
        return f"part-{self.query}-{self.number:010d}-{at:05d}.parquet"


class ParquetSink:
    """Adds each batch of a stream to a folder of Parquet files, exactly once.

    Args:
        store: Store of the folder.
        query: Name of the query, instead of Spark's id.
    """

    def __init__(self, store: OutputStore, query: str | None = None) -> None:
        self._store = store
        self._query = query

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Add a batch; do nothing if the output has it already.

        Args:
            rows: Rows of the batch; any columns that Arrow and Parquet support.
            batch: Number of the batch.

        Raises:
            OutputError: No query called this function, or files of the batch were removed.
            OSError: The store failed.
        """
        query = encode_name(self._query or query_id(rows))
        this = StreamBatch(self._store, query, batch)
        if this.is_committed():
            return
        this.commit(write_batch(rows, self._store, this.work_folder))


def query_id(rows: "DataFrame") -> str:
    """Return the id of the query of a batch.

    Raises:
        OutputError: The rows are not of a streaming query.
    """
    try:
        found: Any = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_PROPERTY)
    except AttributeError as error:
        raise OutputError(
            "Spark Connect does not say which query a batch is of: give the sink query='a name'"
        ) from error
    if not found:
        raise OutputError("these rows are not a batch of a query: use it with foreachBatch")
    return str(found)


def write_batch(rows: "DataFrame", store: OutputStore, folder: str) -> list[BatchFile]:
    """Write the rows of a batch to files, one for each Spark partition that has rows.

    Args:
        rows: Rows of the batch.
        store: Store to write to.
        folder: Folder in the store.

    Raises:
        OSError: The store failed.
    """
    written = rows.mapInArrow(partial(write_rows, store, folder), _RESULT).collect()
    return [BatchFile(*row) for row in written]


def write_rows(
    store: OutputStore, folder: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one Spark partition to one file; yield a row with its path, rows and size.

    Args:
        store: Store to write to.
        folder: Folder in the store; the file gets a name that no other try has.
        batches: Rows; without rows no file is written.

    Raises:
        OSError: The store failed.
    """
    groups = _row_groups(batches)
    first = next(groups, None)
    if first is None:
        return
    path = f"{folder}/{uuid.uuid4().hex}.parquet"
    rows = 0
    with store.open_new(path) as file:
        with pq.ParquetWriter(
            file, first.schema, compression="zstd", compression_level=1
        ) as writer:
            for group in chain([first], groups):
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
        size = file.tell()
    yield pa.RecordBatch.from_pydict({"path": [path], "rows": [rows], "size_bytes": [size]})


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
            rows = 0
            size = 0
    if waiting:
        yield pa.Table.from_batches(waiting)
