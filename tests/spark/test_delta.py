"""Delta tables: exactly once, whoever else commits and wherever a run is killed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from appendlog.spark.errors import LakeMissingError, OutputError
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.output_layout import OutputLayout
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.partition_fields import Partitioning
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.delta_columns import DeltaColumns
from appendlog.spark.exporting.tables.table_names import OtherIncarnationError, lake_module
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import EXPORT_ROWS
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.killed_tables import kill_export
from tests.spark.plain_reader import expected_rows, table_rows
from tests.spark.table_files import export, planned, written

Open = Callable[[StoredQueue], DeltaDestination]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=4096)
    queue.append(plain_messages(100), step=10)
    yield queue
    queue.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", queue="it's \N{GREEK SMALL LETTER PI}")
    queue.append(plain_messages(30), step=10)
    yield queue
    queue.close()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def opened(table: Path) -> Open:
    return lambda queue: DeltaDestination(LocalStore(table), queue.location)


def read(table: Path) -> pa.Table:
    """Return the rows of a table as its users read it."""
    # An own file system: with the one of delta-rs, threads of Arrow call Python at its end.
    files = pafs.SubTreeFileSystem(str(table), pafs.LocalFileSystem())
    return DeltaTable(table).to_pyarrow_table(filesystem=files).sort_by("offset")


def has_all(table: Path, log: QueueLog) -> bool:
    """Tell whether a table has the rows of a log, and no others, once each."""
    return table_rows(read(table)) == expected_rows(log)


def test_a_table_has_every_message_once_and_its_history_says_what_came_when(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    assert opened(stored).last_end() is None
    export(opened(stored), stored.location, table, [(0, 60)])
    assert opened(stored).covered() == [(0, 60)]
    export(opened(stored), stored.location, table, [(60, 70), (70, 100)])
    assert opened(stored).last_end() == 100
    assert has_all(table, stored.location)
    told = [entry["amqplog"] for entry in DeltaTable(table).history() if "amqplog" in entry]
    assert [(entry["queue"], entry["start"], entry["end"], entry["rows"]) for entry in told] == [
        ("orders", 70, 100, 30),
        ("orders", 60, 70, 10),
        ("orders", 0, 60, 60),
    ]


def test_readers_skip_files_by_offset_time_and_queue(
    stored: StoredQueue, other: StoredQueue, table: Path, opened: Open
) -> None:
    stored.skip(50)
    stored.append(plain_messages(1, 150))
    for queue, end in ((stored, 151), (other, 30)):
        export(opened(queue), queue.location, table, [(0, end)])
    files = pa.table(DeltaTable(table).get_add_actions(flatten=True)).to_pylist()
    assert sum(file["num_records"] for file in files) == 131
    assert {file["min.topic"] for file in files} == {"orders", other.location.queue}
    found = sorted(
        (file["min.offset"], file["max.offset"], file["num_records"])
        for file in files
        if file["min.topic"] == "orders"
    )
    # Exact, so that engines may answer from them; the file with the gap too.
    assert found[-1][1] == 150
    offsets = read(table).filter(pa.compute.field("topic") == "orders").column("offset")
    for low, high, count in found:
        within = [each for each in offsets.to_pylist() if low <= each <= high]
        assert (within[0], within[-1], len(within)) == (low, high, count)
    assert all(file["min.timestamp"] <= file["max.timestamp"] for file in files)


def test_of_two_exports_of_the_same_offsets_one_loses_and_nothing_is_doubled(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    for start, end in ((0, 60), (60, 100)):
        # The first time neither knows a table, the second time both know the same.
        first, second = opened(stored), opened(stored)
        with ExitStack() as stack:
            parts = []
            for destination in (first, second):
                job = planned(destination, start, end)
                folder = stack.enter_context(destination.begin(job))
                parts.append(written(stored.location, job, table, folder))
            first.commit(parts[0].job, parts[0].files, [], [])
            with pytest.raises(OutputChangedError, match="another export of queue 'orders'"):
                second.commit(parts[1].job, parts[1].files, [], [])
        left = {file.path for file in LocalStore(table).list("exports")}
        assert not left & {file.path for file in parts[1].files}
        assert left >= {file.path for file in parts[0].files}
    assert has_all(table, stored.location)


def test_an_export_that_was_overtaken_ends_before_it_writes(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    late = opened(stored)
    job = planned(late, 0, 100)
    export(opened(stored), stored.location, table, [(0, 50)])
    with pytest.raises(OutputChangedError, match="offsets below 50"), late.begin(job):
        pass


def test_an_export_of_another_queue_meanwhile_disturbs_none(
    stored: StoredQueue, other: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 50)])
    slow = opened(stored)
    job = planned(slow, 50, 100)
    with slow.begin(job) as folder:
        parts = written(stored.location, job, table, folder)
        export(opened(other), other.location, table, [(0, 30)])
        slow.commit(job, parts.files, [], [])
    assert opened(stored).last_end() == 100
    assert opened(other).last_end() == 30
    assert read(table).num_rows == 130


def test_a_change_of_the_tables_properties_meanwhile_is_no_conflict(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 50)])
    slow = opened(stored)
    job = planned(slow, 50, 100)
    with slow.begin(job) as folder:
        parts = written(stored.location, job, table, folder)
        DeltaTable(table).alter.set_table_properties({"delta.appendOnly": "true"})
        slow.commit(job, parts.files, [], [])
    assert has_all(table, stored.location)


def test_a_commit_whose_answer_was_lost_is_not_made_twice(
    stored: StoredQueue, table: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DeltaDestination._write

    def lose_answer(self: DeltaDestination, *arguments: object) -> None:
        write(self, *arguments)  # type: ignore[arg-type]
        raise self._delta.exceptions.CommitFailedError("the connection was lost")

    monkeypatch.setattr(DeltaDestination, "_write", lose_answer)
    export(opened(stored), stored.location, table, [(0, 100)])
    assert has_all(table, stored.location)


def test_a_run_that_fails_leaves_no_file(stored: StoredQueue, table: Path, opened: Open) -> None:
    destination = opened(stored)
    job = planned(destination, 0, 100)

    def fail() -> None:
        with destination.begin(job) as folder:
            written(stored.location, job, table, folder)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert LocalStore(table).list("") == []


def test_a_range_without_a_message_moves_the_end(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    destination = opened(stored)
    job = planned(destination, 0, 100)
    with destination.begin(job):
        destination.commit(job, [], [(0, 100)], [])
    assert opened(stored).last_end() == 100


def test_a_queue_that_was_declared_again_is_refused(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 100)])
    again = replace(stored.location, incarnation=uuid4())
    with pytest.raises(OtherIncarnationError, match="give another --out"):
        DeltaDestination(LocalStore(table), again).covered()


def test_rows_that_came_without_an_export_are_not_doubled(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 100)])
    copy = table.with_name("copy")
    write_deltalake(copy, read(table))
    with pytest.raises(OutputError, match="has rows of a queue 'orders'"):
        DeltaDestination(LocalStore(copy), stored.location).covered()


def test_a_column_that_is_new_is_added_and_users_columns_stay(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    old = [
        field for field in Schema.from_arrow(EXPORT_ROWS.arrow).fields if field.name != "headers"
    ]
    DeltaTable.create(table, Schema([*old, Field("note", PrimitiveType("string"))]))
    export(opened(stored), stored.location, table, [(0, 100)])
    rows = read(table)
    assert rows.column("note").null_count == 100
    assert table_rows(rows.select(EXPORT_ROWS.names)) == expected_rows(stored.location)


def test_of_two_exports_that_add_a_new_column_the_second_finds_it(
    stored: StoredQueue, table: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeltaTable.create(table, Schema.from_arrow(EXPORT_ROWS.without({"headers"}).arrow))
    add_missing = DeltaColumns.add_missing
    tries = 0

    def overtaken(self: DeltaColumns, mine: DeltaTable) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            add_missing(self, DeltaTable(table))
        add_missing(self, mine)

    monkeypatch.setattr(DeltaColumns, "add_missing", overtaken)
    export(opened(stored), stored.location, table, [(0, 100)])
    assert tries == 2
    assert table_rows(read(table).select(EXPORT_ROWS.names)) == expected_rows(stored.location)


def test_a_table_of_something_else_is_refused(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    DeltaTable.create(table, Schema([Field("offset", PrimitiveType("string"))]))
    with pytest.raises(OutputError, match="column offset is"):
        export(opened(stored), stored.location, table, [(0, 100)])


def test_days_are_partitions_and_another_partitioning_is_refused(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    destination = DeltaDestination(
        LocalStore(table), stored.location, Partitioning(PartitionBy.DAY)
    )
    export(destination, stored.location, table, [(0, 100)], "date=2023-11-14/")
    rows = read(table)
    assert {str(day) for day in rows.column("date").to_pylist()} == {"2023-11-14"}
    assert table_rows(rows.select(EXPORT_ROWS.names)) == expected_rows(stored.location)
    with pytest.raises(OutputError, match="partitioned by date, not by nothing"):
        opened(stored).covered()


def test_a_table_holds_one_choice_of_messages_of_a_queue(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 60)])
    destination = opened(stored)
    job = replace(planned(destination, 60, 100), include="acked")
    with pytest.raises(OutputError, match="holds --include all, and not acked"):
        destination.begin(job).__enter__()


def test_an_output_is_of_one_kind(stored: StoredQueue, table: Path, opened: Open) -> None:
    def files(extension: str) -> FilesDestination:
        store = LocalStore(table)
        return FilesDestination(store, stored.location, OutputLayout(store, extension))

    export(files("parquet"), stored.location, table, [(0, 60)])
    with pytest.raises(OutputError, match="has files of kind parquet, not jsonl"):
        files("jsonl").covered()
    assert files("parquet").covered() == [(0, 60)]
    with pytest.raises(OutputError, match="an output of files, and not a Delta table"):
        opened(stored).covered()
    assert not (table / "_delta_log").exists()
    other = table.with_name("other")
    DeltaTable.create(other, Schema([Field("offset", PrimitiveType("long"))]))
    with pytest.raises(OutputError, match="a Delta table, and not an output of files"):
        FilesDestination(LocalStore(other), stored.location).covered()


def test_a_missing_library_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(LakeMissingError, match=r"pip install 'amqp-server\[lake\]'"):
        lake_module("deltalake")


@pytest.mark.parametrize(
    "step",
    [
        ("commit", "before"),
        ("_create", "before"),
        ("_create", "after"),
        ("_write", "before"),
        ("_write", "after"),
        ("_sync", "after"),
    ],
)
def test_a_kill_at_any_step_leaves_all_or_nothing_and_the_next_run_ends_it(
    stored: StoredQueue, table: Path, opened: Open, step: tuple[str, str]
) -> None:
    kill_export(DeltaDestination, stored.storage_path, "orders", table, step)
    is_committed = step in {("_write", "after"), ("_sync", "after")}
    assert opened(stored).last_end() == (100 if is_committed else None)
    if not is_committed:
        export(opened(stored), stored.location, table, [(0, 100)])
    assert has_all(table, stored.location)
