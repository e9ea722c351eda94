"""Iceberg tables: exactly once, whoever else commits and wherever a run is killed."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import LongType, StringType
from sqlalchemy import Engine, event

from amqp_server.protocol.properties import Properties
from appendlog.layout.message import encode_message
from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.checking.output_queues import exported_queues
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.output_layout import OutputLayout
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.export_plan import ExportRequest, in_tasks, plan_queue
from appendlog.spark.exporting.layout import ICEBERG_CATALOG
from appendlog.spark.exporting.partition_fields import Partitioning
from appendlog.spark.exporting.stores.contents import Contents, contents_of
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables import iceberg
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from appendlog.spark.exporting.tables.iceberg_catalog import NAMESPACE, TABLE, open_catalog
from appendlog.spark.exporting.tables.iceberg_columns import add_missing
from appendlog.spark.exporting.tables.table_names import OtherIncarnationError
from appendlog.spark.exporting.time_partitions import PartitionBy
from appendlog.spark.planning.bounds import Bound
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import EXPORT_ROWS
from tests.spark.builders import StoredQueue, all_kinds_of_messages, plain_messages, store_queue
from tests.spark.killed_tables import kill_export
from tests.spark.local_exports import CORES, run_all
from tests.spark.plain_reader import expected_rows, table_rows
from tests.spark.table_files import export, planned, written

Open = Callable[[StoredQueue], IcebergDestination]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=4096)
    queue.append(plain_messages(100), step=10)
    yield queue
    queue.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", queue="it's \N{GREEK SMALL LETTER PI}")
    queue.append(all_kinds_of_messages(), step=10)
    yield queue
    queue.close()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def opened(table: Path) -> Open:
    return lambda queue: IcebergDestination(LocalStore(table), queue.location)


def load(table: Path) -> Table:
    catalog = open_catalog(LocalStore(table), is_to_be_made=False)
    assert catalog is not None
    return catalog.load_table(TABLE)


def read(table: Path, log: QueueLog) -> pa.Table:
    """Return the rows of a queue as users read them."""
    rows = load(table).scan().to_arrow()
    return rows.filter(pa.compute.field("topic") == log.queue).sort_by("offset")


def has_all(table: Path, log: QueueLog) -> bool:
    """Tell whether a table has the rows of a log, and no others, once each."""
    return table_rows(read(table, log)) == expected_rows(log)


def test_a_table_has_every_message_once_with_its_types(
    stored: StoredQueue, other: StoredQueue, table: Path, opened: Open
) -> None:
    assert opened(stored).last_end() is None
    export(opened(stored), stored.location, table, [(0, 60)])
    export(opened(other), other.location, table, [(0, other.log.log_end_offset)])
    export(opened(stored), stored.location, table, [(60, 100)])
    assert (opened(stored).last_end(), opened(stored).covered()) == (100, [(0, 100)])
    assert has_all(table, stored.location)
    assert has_all(table, other.location)
    told = [
        json.loads(str(snapshot.summary["amqplog"]))
        for snapshot in load(table).metadata.snapshots
        if snapshot.summary is not None
    ]
    assert [(each["queue"], each["start"], each["end"]) for each in told] == [
        ("orders", 0, 60),
        (other.location.queue, 0, other.log.log_end_offset),
        ("orders", 60, 100),
    ]


def test_readers_skip_files_by_offset_and_queue(
    stored: StoredQueue, other: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 60), (60, 100)])
    export(opened(other), other.location, table, [(0, 20)])
    whole = len(list(load(table).scan().plan_files()))
    assert len(list(load(table).scan("offset >= 60 and topic = 'orders'").plan_files())) < whole


def test_of_two_exports_of_the_same_offsets_one_loses_and_nothing_is_doubled(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    for start, end in ((0, 60), (60, 100)):
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
    assert has_all(table, stored.location)


def test_an_export_of_another_queue_meanwhile_disturbs_none(
    stored: StoredQueue, other: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 50)])
    slow = opened(stored)
    job = planned(slow, 50, 100)
    with slow.begin(job) as folder:
        parts = written(stored.location, job, table, folder)
        export(opened(other), other.location, table, [(0, other.log.log_end_offset)])
        load(table).transaction().set_properties({"owner": "me"}).commit_transaction()
        slow.commit(job, parts.files, [], [])
    assert has_all(table, stored.location)
    assert has_all(table, other.location)
    assert load(table).properties["owner"] == "me"
    # What we ask of the library is not left in the table.
    assert "commit.retry.num-retries" not in load(table).properties


def test_a_commit_whose_answer_was_lost_is_not_made_twice(
    stored: StoredQueue, table: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = IcebergDestination._write

    def lose_answer(self: IcebergDestination, *arguments: object) -> None:
        write(self, *arguments)  # type: ignore[arg-type]
        raise self._errors_of.CommitFailedException("the connection was lost")

    monkeypatch.setattr(IcebergDestination, "_write", lose_answer)
    export(opened(stored), stored.location, table, [(0, 100)])
    assert has_all(table, stored.location)


def test_ranges_without_a_message_are_not_committed_twice_either(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    first, second = opened(stored), opened(stored)
    jobs = [planned(destination, 0, 100) for destination in (first, second)]
    with first.begin(jobs[0]), second.begin(jobs[1]):
        first.commit(jobs[0], [], [(0, 100)], [])
        with pytest.raises(OutputChangedError):
            second.commit(jobs[1], [], [(0, 100)], [])
    assert opened(stored).last_end() == 100


def test_what_is_not_this_queues_is_refused(stored: StoredQueue, table: Path, opened: Open) -> None:
    export(opened(stored), stored.location, table, [(0, 60)])
    again = replace(stored.location, incarnation=uuid4())
    with pytest.raises(OtherIncarnationError, match="give another --out"):
        IcebergDestination(LocalStore(table), again).covered()
    destination = opened(stored)
    job = replace(planned(destination, 60, 100), include="acked")
    with pytest.raises(OutputError, match="holds --include all, and not acked"):
        destination.begin(job).__enter__()


def test_an_output_is_of_one_kind(stored: StoredQueue, table: Path, opened: Open) -> None:
    def files(folder: Path) -> FilesDestination:
        store = LocalStore(folder)
        return FilesDestination(store, stored.location, OutputLayout(store, "parquet"))

    export(opened(stored), stored.location, table, [(0, 60)])
    assert contents_of(LocalStore(table)) is Contents.ICEBERG
    with pytest.raises(OutputError, match="an Iceberg table, and not an output of files; give"):
        files(table).covered()
    with pytest.raises(OutputError, match="an Iceberg table, and not a Delta table; give"):
        DeltaDestination(LocalStore(table), stored.location).covered()
    with pytest.raises(OutputError, match="this is an Iceberg table, whose own log says"):
        exported_queues(LocalStore(table))
    other = table.with_name("other")
    export(files(other), stored.location, other, [(0, 60)])
    with pytest.raises(OutputError, match="an output of files, and not an Iceberg table; give"):
        IcebergDestination(LocalStore(other), stored.location).covered()
    # Catalogs of users may lie beside files.
    (other / "catalog.db").touch()
    assert files(other).covered() == [(0, 60)]


@pytest.mark.parametrize(
    "step",
    [("commit", "before"), ("_write", "before"), ("_write", "after"), ("_sync", "before")],
)
def test_a_kill_at_any_step_leaves_all_or_nothing_and_the_next_run_ends_it(
    stored: StoredQueue, table: Path, opened: Open, step: tuple[str, str]
) -> None:
    kill_export(IcebergDestination, stored.storage_path, "orders", table, step)
    is_committed = step in {("_write", "after"), ("_sync", "before")}
    assert opened(stored).last_end() == (100 if is_committed else None)
    if not is_committed:
        export(opened(stored), stored.location, table, [(0, 100)])
    assert has_all(table, stored.location)


def test_columns_that_are_new_are_added_while_others_commit_and_users_columns_stay(
    stored: StoredQueue, table: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = "message_timestamp_raw", "envelope"
    with monkeypatch.context() as of_an_earlier_version:
        for module in ("tables.iceberg_columns", "files.file_task"):
            of_an_earlier_version.setattr(
                f"appendlog.spark.exporting.{module}.EXPORT_ROWS", EXPORT_ROWS.without(later)
            )
        export(opened(stored), stored.location, table, [(0, 60)])
    with load(table).update_schema() as update:
        update.add_column("note", StringType())
    tries = 0

    def overtaken(mine: Table) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            with load(table).update_schema() as update:
                update.add_column("place", StringType())
        elif tries == 2:
            add_missing(load(table))
        add_missing(mine)

    monkeypatch.setattr(iceberg, "add_missing", overtaken)
    export(opened(stored), stored.location, table, [(60, 100)])
    assert tries == 3
    rows = read(table, stored.location)
    assert rows.column("note").null_count == 100
    expected = expected_rows(stored.location)
    for row in expected[:60]:
        row.update(dict.fromkeys(later))
    assert table_rows(rows.select(EXPORT_ROWS.names)) == expected


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda update: update.rename_column("key", "routing"),
            "by their names, and key is called routing now: give it its name again, or give anot",
        ),
        (
            lambda update: update.delete_column("app_id"),
            r"and app_id was dropped: add it again \(`app_id` STRING\), or give another --out",
        ),
        (
            lambda update: update.update_column("key", required=True),
            "its column key must not be null, and a row of an export can have null in every",
        ),
        (
            lambda update: update.add_column("mine", StringType(), required=True),
            "its column mine must not be null",
        ),
    ],
)
def test_columns_that_an_export_cannot_fill_are_refused_and_named_before_anything_is_written(
    stored: StoredQueue,
    table: Path,
    opened: Open,
    change: Callable[[UpdateSchema], object],
    told: str,
) -> None:
    export(opened(stored), stored.location, table, [(0, 60)])
    with load(table).update_schema(allow_incompatible_changes=True) as update:
        change(update)
    with pytest.raises(OutputError, match=told):
        opened(stored).covered()


def test_a_column_may_be_moved_widened_or_dropped_and_added_again(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    export(opened(stored), stored.location, table, [(0, 60)])
    with load(table).update_schema() as update:
        update.move_first("offset")
        update.update_column("priority", LongType())
        update.delete_column("app_id")
    with load(table).update_schema() as update:
        update.add_column("app_id", StringType())
    export(opened(stored), stored.location, table, [(60, 100)])
    assert read(table, stored.location).column("offset").to_pylist() == [*range(100)]


def test_a_time_in_milliseconds_disturbs_no_statistics(
    stored: StoredQueue, table: Path, opened: Open
) -> None:
    times = [1_795_267_933_568, 2**64 - 1, 1_795_267_933]
    stored.append(
        [encode_message(1, b"", b"k", Properties(timestamp=t).encode(), b"") for t in times]
    )
    export(opened(stored), stored.location, table, [(0, 100)])
    load(table).transaction().set_properties(
        {
            f"write.metadata.metrics.{name}": "full"
            for name in ("default", "column.message_timestamp")
        }
    ).commit_transaction()
    export(opened(stored), stored.location, table, [(100, 103)])
    rows = read(table, stored.location).slice(100)
    assert rows.column("message_timestamp_raw").to_pylist() == [times[0], -1, times[2]]
    found = rows.column("message_timestamp").to_pylist()
    assert found == [None, None, datetime.fromtimestamp(times[2], UTC)]


@pytest.mark.parametrize("by", PartitionBy)
def test_days_or_hours_are_partitions_that_queries_need_not_name(
    stored: StoredQueue, table: Path, by: PartitionBy
) -> None:
    stored.append(plain_messages(40, first=100), step=60 * 10**9)

    def destination(partition_by: PartitionBy | None) -> IcebergDestination:
        return IcebergDestination(LocalStore(table), stored.location, Partitioning(partition_by))

    for until in (70, None):
        to = destination(by)
        wanted = ExportRequest(
            until=None if until is None else Bound.at_offset(until), partition_by=by
        )
        planned = plan_queue(stored.storage_path, stored.location, to, wanted)
        run_all([QueueExport(in_tasks([planned], CORES)[0], to)])
    assert has_all(table, stored.location)
    (field,) = load(table).spec().fields
    assert field.name == f"timestamp_{by}"
    values = {str(file.file.partition[0]) for file in load(table).scan().plan_files()}
    assert len(values) == len(
        {time.strftime("%Y%m%d" if by is PartitionBy.DAY else "%Y%m%d%H") for time in times(table)}
    )
    some = min(times(table)).strftime("timestamp < '%Y-%m-%dT%H:59:59+00:00'")
    assert load(table).scan(some).to_arrow().num_rows > 0
    for other in {None, *PartitionBy} - {by}:
        with pytest.raises(OutputError, match=f"partitioned by {by}, not by {other or 'nothing'}"):
            destination(other).covered()


def times(table: Path) -> list[datetime]:
    rows = load(table).scan(selected_fields=("timestamp",)).to_arrow()
    found: list[datetime] = rows.column("timestamp").to_pylist()
    return found


@pytest.mark.parametrize("is_to_be_made", [True, False])
def test_a_catalog_that_several_make_at_once_is_there_for_all(
    tmp_path: Path, *, is_to_be_made: bool
) -> None:
    """Another process makes all of it, before each of our statements in turn."""
    step = met = 0
    while met == step:  # until ours is made before it can be overtaken
        store = LocalStore(tmp_path / str(step))
        if not is_to_be_made:
            # SQLite makes the file before anything is in it.
            store.create(ICEBERG_CATALOG, b"")
        statements = 0

        def overtake(*_: object, at: int = step, store: LocalStore = store) -> None:
            nonlocal statements, met
            statements += 1
            if statements == at + 1:
                met += 1
                assert open_catalog(store, is_to_be_made=True) is not None

        event.listen(Engine, "before_cursor_execute", overtake)
        try:
            catalog = open_catalog(store, is_to_be_made=is_to_be_made)
        finally:
            event.remove(Engine, "before_cursor_execute", overtake)
        assert catalog is not None
        assert catalog.list_namespaces() == [(NAMESPACE,)]
        step += 1
    assert met > 5
