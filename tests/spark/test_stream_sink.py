import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting import stream_sink
from appendlog.spark.exporting.batch_content import BatchContent
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stream_sink import ParquetSink, StreamBatch, write_rows
from appendlog.spark.exporting.tables.delta_stream import DeltaSink
from pyspark_amqplog.sink import delta_sink

Rows = Sequence[Sequence[int]]
"""Of each partition."""


class Session:
    """What the sink asks of Spark."""

    def __init__(self, query: str | None) -> None:
        self.sparkContext = self
        self.query = query

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self.query if name == "sql.streaming.queryId" else None


class Frame:
    """A DataFrame whose tasks run here."""

    def __init__(self, partitions: Rows, query: str | None = "q1") -> None:
        self.partitions = partitions
        self.sparkSession = Session(query)
        self.found: list[tuple[Any, ...]] = []

    @property
    def columns(self) -> list[str]:
        return ["n"]

    def mapInArrow(  # noqa: N802
        self, write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
    ) -> "Frame":
        self.found = []
        for rows in self.partitions:
            batches = [pa.RecordBatch.from_pydict({"n": [row]}) for row in rows]
            for result in write(iter([*batches, pa.RecordBatch.from_pydict({"n": []})])):
                self.found += [tuple(row.values()) for row in result.to_pylist()]
                assert ", ".join(result.schema.names) == re.sub(r" \w+(?=,|$)", "", schema)
        return self

    def collect(self) -> list[tuple[Any, ...]]:
        return self.found


class CrashError(Exception):
    pass


class CrashingStore(LocalStore):
    """Ends the process before, or behind, one of its operations."""

    def __init__(self, root: Path, at: int, is_behind: bool) -> None:
        super().__init__(root)
        self.left = at
        self.is_behind = is_behind

    def _count(self, do: Callable[[], Any]) -> Any:  # noqa: ANN401
        self.left -= 1
        if self.left == -1 and not self.is_behind:
            raise CrashError
        found = do()
        if self.left == -1:
            raise CrashError
        return found

    def create(self, path: str, data: bytes) -> None:
        self._count(lambda: LocalStore.create(self, path, data))

    def move(self, source: str, target: str) -> None:
        self._count(lambda: LocalStore.move(self, source, target))

    def delete(self, path: str) -> None:
        self._count(lambda: LocalStore.delete(self, path))

    def open_new(self, path: str) -> Any:  # noqa: ANN401
        return self._count(lambda: LocalStore.open_new(self, path))


def rows_in(out: Path) -> list[int]:
    """Return what any reader of Parquet files finds."""
    return [
        row
        for path in sorted(out.glob("*.parquet"))
        for row in pq.read_table(path).column("n").to_pylist()
    ]


def call(sink: ParquetSink, partitions: Rows, batch: int, query: str | None = "q1") -> None:
    frame: Any = Frame(partitions, query)
    sink(frame, batch)


def test_batches_are_added_and_one_that_comes_again_is_not(tmp_path: Path) -> None:
    sink = ParquetSink(LocalStore(tmp_path))
    call(sink, [[1, 2], [], [3]], 0)
    call(sink, [[4]], 1)
    call(sink, [[4]], 1)
    assert rows_in(tmp_path) == [1, 2, 3, 4]
    assert [path.name for path in sorted(tmp_path.glob("*.parquet"))] == [
        "part-q1-0000000000-00000.parquet",
        "part-q1-0000000000-00001.parquet",
        "part-q1-0000000001-00000.parquet",
    ]
    records = sorted((tmp_path / "_streams/q1").iterdir())
    assert [path.name for path in records] == [f"{0:020d}.json", f"{1:020d}.json"]
    record = json.loads(records[0].read_text())
    assert (record["version"], record["query"], record["batch"]) == (1, "q1", 0)
    assert (record["rows"], len(record["files"])) == (3, 2)
    size = (tmp_path / "part-q1-0000000000-00000.parquet").stat().st_size
    assert record["files"][0]["size_bytes"] == size


def test_a_query_with_a_new_checkpoint_is_another_one(tmp_path: Path) -> None:
    sink = ParquetSink(LocalStore(tmp_path))
    call(sink, [[1]], 0, "q1")
    call(sink, [[2]], 0, "q2")
    call(ParquetSink(LocalStore(tmp_path), query="mine"), [[3]], 0, None)
    assert sorted(rows_in(tmp_path)) == [1, 2, 3]


def test_it_is_for_batches_of_a_query(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="foreachBatch"):
        call(ParquetSink(LocalStore(tmp_path)), [[1]], 0, None)


def test_a_query_may_have_any_name(tmp_path: Path) -> None:
    for batch in (0, 0, 1):
        call(ParquetSink(LocalStore(tmp_path), query="../Orders/é"), [[batch]], batch, None)
    assert rows_in(tmp_path) == [0, 1]
    assert len(list(tmp_path.iterdir())) == 3


def test_spark_connect_needs_a_name(tmp_path: Path) -> None:
    frame: Any = Frame([[1]])
    frame.sparkSession = object()
    with pytest.raises(OutputError, match="Spark Connect"):
        ParquetSink(LocalStore(tmp_path))(frame, 0)
    ParquetSink(LocalStore(tmp_path), query="mine")(frame, 0)
    assert rows_in(tmp_path) == [1]


def test_a_batch_without_rows_is_committed(tmp_path: Path) -> None:
    for _ in range(2):
        call(ParquetSink(LocalStore(tmp_path)), [[], []], 0)
        assert rows_in(tmp_path) == []
    with pytest.raises(OutputError, match="batch 0 of query q1 comes again with other rows"):
        call(ParquetSink(LocalStore(tmp_path)), [[7]], 0)


EARLIER = "batch {} of query q1 comes again, but batch {} is here already: the checkpoint is older"


def test_a_checkpoint_that_is_behind_the_output_is_refused(tmp_path: Path) -> None:
    """To skip its batches would lose their rows: they need not be those of the same number."""
    sink = ParquetSink(LocalStore(tmp_path))
    for batch in range(3):
        call(sink, [[batch]], batch)
    for batch in range(2):
        with pytest.raises(OutputError, match=EARLIER.format(batch, 2)):
            call(sink, [[batch]], batch)
    call(sink, [[2]], 2)
    with pytest.raises(OutputError, match=r"other rows than are here.*query='...'.*compare=False"):
        call(sink, [[20]], 2)
    with pytest.raises(OutputError, match="other rows than are here"):
        call(sink, [[2], [2]], 2)
    call(ParquetSink(LocalStore(tmp_path), compare=False), [[20]], 2)
    with pytest.raises(OutputError, match=EARLIER.format(1, 2)):
        call(ParquetSink(LocalStore(tmp_path), compare=False), [[20]], 1)
    call(sink, [[3]], 3)
    assert rows_in(tmp_path) == [0, 1, 2, 3]


def test_spark_may_divide_a_batch_that_comes_again_otherwise(tmp_path: Path) -> None:
    sink = ParquetSink(LocalStore(tmp_path))
    call(sink, [[1, 2], [3]], 0)
    call(sink, [[], [3, 1], [], [2]], 0)
    assert rows_in(tmp_path) == [1, 2, 3]


def test_a_batch_that_was_committed_without_a_digest_is_known_by_its_rows(tmp_path: Path) -> None:
    sink = ParquetSink(LocalStore(tmp_path))
    call(sink, [[1, 2]], 0)
    (path,) = (tmp_path / "_streams/q1").iterdir()
    record = json.loads(path.read_text())
    del record["digest"]
    path.write_text(json.dumps(record))
    call(sink, [[3, 4]], 0)
    with pytest.raises(OutputError, match="other rows"):
        call(sink, [[1]], 0)


@pytest.mark.parametrize("is_behind", [False, True])
def test_every_row_is_there_once_wherever_the_process_was_killed(
    tmp_path: Path, is_behind: bool
) -> None:
    at, is_killed = 0, True
    while is_killed:
        out = tmp_path / str(at)
        call(ParquetSink(LocalStore(out)), [[1]], 0)
        is_killed = False
        try:
            call(ParquetSink(CrashingStore(out, at, is_behind)), [[2], [3, 4]], 1)
        except CrashError:
            is_killed = True
        seen = rows_in(out)
        assert seen == [1, 2, 3, 4][: len(seen)]
        # As Spark does: the batch comes again, and then the next one.
        call(ParquetSink(LocalStore(out)), [[2], [3, 4]], 1)
        call(ParquetSink(LocalStore(out)), [[5]], 2)
        assert rows_in(out) == [1, 2, 3, 4, 5]
        at += 1
    assert at > 4


def test_of_two_processes_with_the_same_batch_one_counts(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    one, two = (StreamBatch(store, "q1", 0) for _ in range(2))
    batch = pa.RecordBatch.from_pydict({"n": [1]})
    files = [
        [stream_sink.BatchFile(*list(result.to_pylist()[0].values())[:3])]
        for result in (
            next(write_rows(store, each.work_folder, (), [batch])) for each in (one, two)
        )
    ]
    content = BatchContent(1, 5)
    first = one.commit(files[0], content)
    assert first["digest"] == 5
    assert two.commit(files[1], BatchContent(1, 6)) == first
    assert rows_in(tmp_path) == [1]
    assert store.list(one.work_folder) == []


def test_a_committed_file_that_is_gone_is_told(tmp_path: Path) -> None:
    sink = ParquetSink(LocalStore(tmp_path))
    call(sink, [[1]], 0)
    (path,) = tmp_path.glob("*.parquet")
    path.unlink()
    with pytest.raises(OutputError, match=path.name):
        call(sink, [[1]], 0)


def test_old_commits_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_sink, "RECORDS_KEPT", 2)
    for batch in range(4):
        call(ParquetSink(LocalStore(tmp_path)), [[batch]], batch)
    names = [path.name for path in sorted((tmp_path / "_streams/q1").iterdir())]
    assert names == [f"{2:020d}.json", f"{3:020d}.json"]
    assert rows_in(tmp_path) == [0, 1, 2, 3]


def test_a_query_that_begins_anew_replaces_nothing_whose_commit_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_sink, "RECORDS_KEPT", 2)
    for batch in range(4):
        call(ParquetSink(LocalStore(tmp_path)), [[batch]], batch)
    for batch in range(4):
        with pytest.raises(OutputError, match="comes again"):
            call(ParquetSink(LocalStore(tmp_path)), [[100 + batch]], batch)
    call(ParquetSink(LocalStore(tmp_path)), [[104]], 4)
    assert rows_in(tmp_path) == [0, 1, 2, 3, 104]


def test_files_have_row_groups_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_sink, "ROW_GROUP_ROWS", 3)
    call(ParquetSink(LocalStore(tmp_path)), [range(8)], 0)
    (path,) = tmp_path.glob("*.parquet")
    assert pq.ParquetFile(path).num_row_groups == 3
    assert rows_in(tmp_path) == list(range(8))


def table_rows(path: Path) -> list[int]:
    table = DeltaTable(path).to_pyarrow_table()
    return sorted(table.column("n").to_pylist())


def test_a_delta_table_has_each_batch_once(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "table")
    for batch, rows in ((0, [[1, 2], [3]]), (0, [[1, 2], [3]]), (1, []), (1, []), (2, [[4]])):
        add_to_table(DeltaSink(store), rows, batch)
        add_to_table(DeltaSink(store), rows, batch)
    assert table_rows(tmp_path / "table") == [1, 2, 3, 4]
    table = DeltaTable(tmp_path / "table")
    assert table.transaction_version("amqplog-stream:q1") == 2
    assert json.loads(table.schema().to_json()) == json.loads(SCHEMA.json())
    add_to_table(DeltaSink(store, query="other"), [[5]], 0)
    assert table_rows(tmp_path / "table") == [1, 2, 3, 4, 5]


def test_a_checkpoint_that_is_behind_the_table_is_refused(tmp_path: Path) -> None:
    sink = DeltaSink(LocalStore(tmp_path))
    for batch in range(3):
        add_to_table(sink, [[batch]], batch)
    for batch in range(2):
        with pytest.raises(OutputError, match=EARLIER.format(batch, 2)):
            add_to_table(sink, [[batch]], batch)
    add_to_table(sink, [[2]], 2)
    with pytest.raises(OutputError, match=r"other rows than are here.*query='...'.*compare=False"):
        add_to_table(sink, [[20]], 2)
    add_to_table(DeltaSink(LocalStore(tmp_path), compare=False), [[20]], 2)
    add_to_table(sink, [[3]], 3)
    assert table_rows(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_delta_table_has_every_row_once_wherever_the_process_was_killed(
    tmp_path: Path, is_behind: bool
) -> None:
    for at in range(3):
        out = tmp_path / str(at)
        add_to_table(DeltaSink(LocalStore(out)), [[1]], 0)
        with suppress(CrashError):
            add_to_table(DeltaSink(CrashingStore(out, at, is_behind)), [[2], [3]], 1)
        add_to_table(DeltaSink(LocalStore(out)), [[2], [3]], 1)
        assert table_rows(out) == [1, 2, 3]


def test_of_two_processes_with_the_same_batch_one_is_in_the_table(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    add_to_table(DeltaSink(store), [[1]], 0)
    # The second one has looked at the table before the first one commits.
    slow = DeltaSink(store)
    snapshot = DeltaTable(tmp_path)
    slow._open = lambda: snapshot  # type: ignore[method-assign]
    add_to_table(DeltaSink(store), [[2]], 1)
    slow_commit = slow._commit

    def commit(*arguments: Any) -> None:  # noqa: ANN401
        slow._open = lambda: DeltaTable(tmp_path)  # type: ignore[method-assign]
        slow_commit(*arguments)

    slow._commit = commit  # type: ignore[method-assign, assignment]
    add_to_table(slow, [[2]], 1)
    assert table_rows(tmp_path) == [1, 2]


def test_of_two_processes_with_other_rows_the_second_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    add_to_table(DeltaSink(store), [[1]], 0)
    slow = DeltaSink(store)
    snapshot = DeltaTable(tmp_path)
    opened = [snapshot]
    slow._open = lambda: opened.pop() if opened else DeltaTable(tmp_path)  # type: ignore[method-assign]
    add_to_table(DeltaSink(store), [[2]], 1)
    with pytest.raises(OutputError, match="other rows than are here"):
        add_to_table(slow, [[3]], 1)
    assert table_rows(tmp_path) == [1, 2]


def test_a_delta_table_with_other_columns_is_refused(tmp_path: Path) -> None:
    sink = DeltaSink(LocalStore(tmp_path))
    add_to_table(sink, [[1]], 0)
    with pytest.raises(OutputError, match="column n of the stream is long, not string"):
        add_to_table(sink, [[2]], 1, StructType([StructField("n", StringType())]))
    with pytest.raises(OutputError, match="column m of the stream is not in the table"):
        add_to_table(sink, [[2]], 1, StructType([StructField("m", LongType())]))


SCHEMA = StructType([StructField("n", LongType())])


def add_to_table(sink: DeltaSink, rows: Rows, batch: int, schema: StructType = SCHEMA) -> None:
    frame: Any = Frame(rows)
    frame.schema = schema
    sink(frame, batch)


def test_a_delta_table_in_an_object_store_is_refused() -> None:
    with pytest.raises(OutputError, match="in a directory only"):
        delta_sink("s3://bucket/table")
