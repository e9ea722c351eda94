"""Writes each batch of a stream exactly once to Parquet files, as a function for `foreachBatch`.

Spark's own file sink lists the valid files in `_spark_metadata`, which other readers ignore. This
sink moves files into place only after the commit of their batch, so any reader sees the right rows:

    _streams/<query>/work-<batch>/<uuid>.parquet    written by tasks, any number of times
    _streams/<query>/<batch>.json                   created if absent: the commit
    part-<query>-<batch>-<n>.parquet                the same files, moved after the commit

After a crash, Spark repeats the last batch, with the same number of the same query. Then the sink
finds its commit, compares what the batch contains, writes nothing, and completes the moves. Any
other batch whose number has been committed comes from a checkpoint that is not that of the output.
To skip it could lose rows, and to write it could add rows twice, so it is refused. Spark keeps the
query's id in its checkpoint: a query with a new checkpoint is another query, without commits.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.batch_content import BatchContent, ContentSums, content_of
from appendlog.spark.exporting.partition_runs import Partition, partition_runs
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
_WAYS_ON: Final = (
    "Go on with the checkpoint that wrote it; or give the sink another name, query='...', and let "
    "the stream start behind the rows that are here."
)
_RESULT: Final = "path string, rows bigint, size_bytes bigint, partition string, sums string"


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A file that a task has written.

    Attributes:
        path: Path in the store.
        rows: Number of rows, at least 1.
        size_bytes: Size of the file in bytes.
        partition: Partition of all its rows; empty without partitions.
    """

    path: str
    rows: int
    size_bytes: int
    partition: Partition = field(default_factory=dict)


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
        return f"{self._folder}/work-{self.number:020d}"

    def committed(self) -> dict[str, Any] | None:
        """Return the commit of the batch, if it is in the output; completes its moves.

        Raises:
            OutputError: A later batch was committed, or files of this one are gone.
            OSError: The store failed.
        """
        record = self._read(self.number)
        # The commit of the batch before exists, unless the query has begun, or has begun again.
        if record is not None or not self.number or self._read(self.number - 1) is None:
            last = self._last()
            if last > self.number:
                raise earlier_batch(self.store.url, self.query, self.number, last)
        if record is not None:
            self._complete(record)
        return record

    def _complete(self, record: dict[str, Any]) -> None:
        for at, file in enumerate(record["files"]):
            try:
                self.store.move(file["path"], self._place(at))
            except FileNotFoundError as error:
                raise OutputError(
                    f"{self.store.url}: batch {self.number} was committed with the file "
                    f"{self._place(at)}, which someone has removed"
                ) from error

    def commit(self, files: Sequence[BatchFile], content: BatchContent) -> dict[str, Any]:
        """Commit the files of the batch, unless another process has committed its own first.

        Returns:
            The commit that counts.

        Raises:
            OSError: The store failed; `committed` says whether the batch is committed.
        """
        record = {
            "version": VERSION,
            "query": self.query,
            "batch": self.number,
            "rows": content.rows,
            "digest": content.digest,
            "files": [
                {"path": file.path, "rows": file.rows, "size_bytes": file.size_bytes}
                for file in files
            ],
        }
        # If another process of the same query was first, its files are the batch.
        with suppress(FileExistsError):
            self.store.create(self._record(self.number), json.dumps(record).encode() + b"\n")
        record = self._read(self.number) or record
        self._complete(record)
        # Only files of this batch: another process may be writing the next one already.
        for left in self.store.list(self.work_folder):
            self.store.delete(left.path)
        if self.number >= RECORDS_KEPT:
            self.store.delete(self._record(self.number - RECORDS_KEPT))
        return record

    def _last(self) -> int:
        """Return the number of the last committed batch; -1 if there is none."""
        at = len(self._folder) + 1
        names = (file.path[at:] for file in self.store.list(self._folder))
        numbers = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return max((int(number) for number in numbers if number.isdecimal()), default=-1)

    def _read(self, number: int) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads(self.store.read(self._record(number)))
        except FileNotFoundError:
            return None
        return record

    @property
    def _folder(self) -> str:
        return f"{STREAMS_FOLDER}/{self.query}"

    def _record(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.json"

    def _place(self, at: int) -> str:
        return f"part-{self.query}-{self.number:010d}-{at:05d}.parquet"


class ParquetSink:
    """Adds each batch of a stream to a folder of Parquet files, exactly once.

    Args:
        store: Store of the folder.
        query: Name of the query, instead of Spark's id.
        compare: Whether the rows of a batch that comes again must be the same.
    """

    def __init__(
        self, store: OutputStore, query: str | None = None, *, compare: bool = True
    ) -> None:
        self._store = store
        self._query = query
        self._compare = compare

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Add a batch; do nothing if it is the last one of the output.

        Args:
            rows: Rows of the batch; any columns that Arrow and Parquet support.
            batch: Number of the batch.

        Raises:
            OutputError: No query called this function, the checkpoint is not that of the output, or
                files of the batch were removed.
            OSError: The store failed.
        """
        query = encode_name(self._query or query_id(rows))
        this = StreamBatch(self._store, query, batch)
        record = this.committed()
        if record is None:
            files, content = write_batch(rows, self._store, this.work_folder)
            record = this.commit(files, content)
        elif not self._compare:
            return
        else:
            content = content_of(rows)
        if self._compare and not _is_same(record, content):
            raise other_rows(self._store.url, query, batch)


def _is_same(record: dict[str, Any], content: BatchContent) -> bool:
    # Commits of earlier versions have no digest.
    digest = record.get("digest", content.digest)
    return (record["rows"], digest) == (content.rows, content.digest)


def earlier_batch(url: str, query: str, number: int, last: int) -> OutputError:
    """Return why a batch is refused that is not the last committed one of its query, and not new.

    Args:
        url: URL of the output.
        query: Query of the batch.
        number: Number of the batch.
        last: Number of the last committed batch.
    """
    return OutputError(
        f"{url}: batch {number} of query {query} comes again, but batch {last} is here already: "
        f"the checkpoint is older than the output, or it was lost. {_WAYS_ON}"
    )


def other_rows(url: str, query: str, number: int) -> OutputError:
    """Return why a batch is refused that comes again with other rows than are in the output.

    Args:
        url: URL of the output.
        query: Query of the batch.
        number: Number of the batch.
    """
    return OutputError(
        f"{url}: batch {number} of query {query} comes again with other rows than are here: the "
        f"checkpoint is not that of the output. {_WAYS_ON} If its rows come out otherwise each "
        "time, by uuid(), a clock or new code, give the sink compare=False"
    )


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


def write_batch(
    rows: "DataFrame", store: OutputStore, folder: str, partition_by: Sequence[str] = ()
) -> tuple[list[BatchFile], BatchContent]:
    """Write the rows of a batch to files, one for each Spark partition that has rows.

    Args:
        rows: Rows of the batch.
        store: Store to write to.
        folder: Folder in the store.
        partition_by: Columns of which a file has one value each, and which it leaves out.

    Raises:
        OSError: The store failed.
    """
    if partition_by:
        rows = rows.sortWithinPartitions(*(f"`{name}`" for name in partition_by))
    write = partial(write_rows, store, folder, tuple(partition_by))
    written = rows.mapInArrow(write, _RESULT).collect()
    total = ContentSums()
    for *_, sums in written:
        total.add_text(sums)
    files = [
        BatchFile(path, count, size, json.loads(partition))
        for path, count, size, partition, _ in written
    ]
    return files, total.content()


def write_rows(
    store: OutputStore,
    folder: str,
    partition_by: Sequence[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one Spark partition to files; yield a row about each.

    Args:
        store: Store to write to.
        folder: Folder in the store; files get names that no other try has.
        partition_by: See `write_batch`; the rows are in the order of these columns.
        batches: Rows; without rows no file is written.

    Raises:
        OSError: The store failed.
    """
    for partition, part in partition_runs(batches, partition_by):
        sums = ContentSums()
        path = f"{folder}/{uuid.uuid4().hex}.parquet"
        rows, size = _write_file(store, path, _row_groups(part, partition_by, sums))
        yield pa.RecordBatch.from_pydict(
            {
                "path": [path],
                "rows": [rows],
                "size_bytes": [size],
                "partition": [json.dumps(partition)],
                "sums": [sums.as_text()],
            }
        )


def _write_file(store: OutputStore, path: str, groups: Iterator[pa.Table]) -> tuple[int, int]:
    """Write row groups to a file; return its rows and bytes."""
    first = next(groups)
    rows = 0
    with store.open_new(path) as file:
        with pq.ParquetWriter(
            file, first.schema, compression="zstd", compression_level=1
        ) as writer:
            for group in chain([first], groups):
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
        return rows, file.tell()


def _row_groups(
    batches: Iterable[pa.RecordBatch], left_out: Sequence[str], sums: ContentSums
) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        sums.add(batch)
        waiting.append(batch.drop_columns(list(left_out)))
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
            rows = 0
            size = 0
    if waiting:
        yield pa.Table.from_batches(waiting)
