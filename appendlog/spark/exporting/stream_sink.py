"""A stream's batches as plain Parquet files, each exactly once: a function for `foreachBatch`.

Spark's own file sink keeps what counts in `_spark_metadata`, which no other reader knows. Here
files are put into place only when their batch is committed, so whoever reads the folder is right:

    _streams/<query>/work-<batch>/<uuid>.parquet    written by tasks, any number of times
    _streams/<query>/<batch>.json                   created if absent: the commit
    part-<query>-<batch>-<n>.parquet                the same files, moved behind the commit

A batch that comes again after a crash, with the same number of the same query, finds its commit:
nothing is written, and the moves are completed. The query's id is Spark's, and is in its
checkpoint: a query with a new checkpoint is another one, and has nothing committed yet.
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
"""Readers see no folder whose name begins with `_`."""
VERSION: Final = 1
RECORDS_KEPT: Final = 1000
"""Commits that stay; Spark can only ask for the last one again."""
ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 32 << 20
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
_RESULT: Final = "path string, rows bigint, size_bytes bigint"


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file that a task has written.

    Attributes:
        path: In the store.
        rows: In it, at least 1.
        size_bytes: Of the file.
    """

    path: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of one query, and where it goes.

    Attributes:
        store: The output.
        query: Which query: an id that outlives its restarts, safe as a file name.
        number: Of the batch.
    """

    store: OutputStore
    query: str
    number: int

    @property
    def work_folder(self) -> str:
        """Return where tasks write."""
        return f"{STREAMS_FOLDER}/{self.query}/work-{self.number:020d}"

    def is_committed(self) -> bool:
        """Tell whether the batch is in the output, whole; completes it if it was committed.

        Raises:
            OutputError: It was committed, but files of it are gone.
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
                    f"{self._place(at)}, which somebody has removed"
                ) from error
        return True

    def _is_behind(self) -> bool:
        """Tell whether later batches of the query are committed: then this one was, or is skipped.

        Its files would take the places of those of the batch that had its number. The batch
        before is there unless a query has begun, or begun anew.
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
        """Put the files of the batch into the output; all of them, or those of whoever was first.

        Raises:
            OSError: The store failed: whether the batch is committed, `is_committed` tells.
        """
        record = {
            "version": VERSION,
            "query": self.query,
            "batch": self.number,
            "rows": sum(file.rows for file in files),
            "files": [asdict(file) for file in files],
        }
        # If another process runs the same query and was first, its files count.
        with suppress(FileExistsError):
            self.store.create(self._record(self.number), json.dumps(record).encode() + b"\n")
        self.is_committed()
        # Only of this batch: who was second here may be writing the next one already.
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
        store: The folder.
        query: Stands for the query in place of Spark's id of it.
    """

    def __init__(self, store: OutputStore, query: str | None = None) -> None:
        self._store = store
        self._query = query

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Add a batch; nothing if it is there already.

        Args:
            rows: Of the batch; any columns that Arrow and Parquet have.
            batch: Its number.

        Raises:
            OutputError: It is not called by a query, or files of the batch were removed.
            OSError: The store failed.
        """
        query = encode_name(self._query or query_id(rows))
        this = StreamBatch(self._store, query, batch)
        if this.is_committed():
            return
        this.commit(write_batch(rows, self._store, this.work_folder))


def query_id(rows: "DataFrame") -> str:
    """Return the id of the query that this batch is of.

    Raises:
        OutputError: It is of none.
    """
    try:
        found: Any = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_PROPERTY)
    except AttributeError as error:
        raise OutputError(
            "Spark Connect does not tell of which query a batch is: give the sink query='a name'"
        ) from error
    if not found:
        raise OutputError("these rows are not a batch of a query: use it with foreachBatch")
    return str(found)


def write_batch(rows: "DataFrame", store: OutputStore, folder: str) -> list[BatchFile]:
    """Write the rows of a batch to files, one for each Spark partition that has rows.

    Args:
        rows: Of the batch.
        store: Where to write.
        folder: In it.

    Raises:
        OSError: The store failed.
    """
    written = rows.mapInArrow(partial(write_rows, store, folder), _RESULT).collect()
    return [BatchFile(*row) for row in written]


def write_rows(
    store: OutputStore, folder: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one Spark partition to one file, and return what it is called.

    Args:
        store: Where to write.
        folder: In it; the file gets a name that no other attempt has.
        batches: Rows; no file is written if there is none.

    Raises:
        OSError: The store failed.
    """
    groups = _row_groups(batches)
    first = next(groups, None)
    if first is None:
        return
    path, rows = f"{folder}/{uuid.uuid4().hex}.parquet", 0
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
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
