"""Whole exports between object stores: planned, run, committed, read back. No Spark in it."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from appendlog.spark.exporting import export_plan
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.output_kinds import OUTPUT_KINDS
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS
from appendlog.spark.exporting.stores.object_store import delta_options
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.objects.location import storage_path
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.queues import find_queue
from cli.main import main
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.local_exports import LocalRunner, request, run_all
from tests.spark.object_stores import ACCESS_KEY, SECRET_KEY, LoopbackS3, new_memory, upload
from tests.spark.plain_reader import Row, expected_rows, table_rows


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_plan, "SPLIT_BYTES", 4000)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredQueue:
    stored = store_queue(tmp_path_factory.mktemp("archive") / "data", segment_bytes=16 << 10)
    stored.append(plain_messages(300), step=10)
    stored.close()
    return stored


def rows_in(store: OutputStore) -> list[Row]:
    """Return the rows of all files that a plain reader sees, in the order of offsets."""
    rows: list[Row] = []
    for file in store.list(""):
        if not file.path.startswith("_"):
            with store.open_read(file.path) as opened:
                rows += table_rows(pq.ParquetFile(opened).read())
    return sorted(rows, key=lambda row: int(row["offset"]))


def s3_place(s3: LoopbackS3) -> tuple[str, dict[str, str]]:
    return f"s3://{s3.new_bucket()}", s3.values


def memory_place(_: LoopbackS3) -> tuple[str, dict[str, str]]:
    return new_memory(), {}


@pytest.mark.parametrize("place", [s3_place, memory_place])
def test_an_archive_in_a_store_is_exported_into_it(
    place: Callable[[LoopbackS3], tuple[str, dict[str, str]]], s3: LoopbackS3, stored: StoredQueue
) -> None:
    url, values = place(s3)
    upload(stored.storage_path, f"{url}/data", StoreOptions.of(values))
    archive = storage_path(f"{url}/data")
    log = find_queue(archive, "/", "orders", StoreOptions.of(values))
    store = open_store(f"{url}/lake", values)
    for until in (120, None):
        to = FilesDestination(store, log)
        planned = export_plan.plan_queue(archive, log, to, request(until=until))
        runner = LocalRunner()
        run_all([QueueExport(planned, to)], runner=runner)
        assert SECRET_KEY not in repr(runner.tasks)
    assert rows_in(store) == expected_rows(stored.location)
    assert FilesDestination(store, log).last_end() == 300
    to = FilesDestination(store, log)
    assert export_plan.plan_queue(archive, log, to, request()).is_empty


def test_a_delta_table_in_a_store_is_exported_to(s3: LoopbackS3, stored: StoredQueue) -> None:
    url = f"s3://{s3.new_bucket()}/table"
    store = open_store(url, s3.values)
    destination_of = OUTPUT_KINDS["delta"].destinations(store, NO_PARTITIONS)
    for until in (120, None, None):
        to = destination_of(stored.location)
        planned = export_plan.plan_queue(
            stored.storage_path, stored.location, to, request(until=until)
        )
        if not planned.is_empty:
            assert [each.error for each in run_all([QueueExport(planned, to)])] == [None]
    table = DeltaTable(url, storage_options=delta_options(store))
    assert table.version() == 2
    keys = [urlsplit(uri).path for uri in table.file_uris()]
    rows: list[Row] = []
    for key in keys:
        with store.open_read(key.removeprefix("/table/")) as opened:
            rows += table_rows(pq.ParquetFile(opened).read())
    offsets = sorted(int(row["offset"]) for row in rows)
    assert offsets == list(range(300))


def arguments_of(s3: LoopbackS3, *arguments: str) -> list[str]:
    options = [f"--store-option={name}={value}" for name, value in s3.values.items()]
    return ["export", "--queue", "orders", "--dry-run", *arguments, *options]


def test_the_command_reads_and_writes_stores_and_shows_no_secret(
    s3: LoopbackS3, stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = s3.new_bucket()
    upload(stored.storage_path, f"s3://{bucket}/data", s3.options)
    places = ["--storage-path", f"s3://{bucket}/data", "--out", f"s3://{bucket}/lake"]
    assert main(arguments_of(s3, *places)) == 0
    written = capsys.readouterr()
    assert "300 " in written.out
    assert main(arguments_of(s3, *places, "--json")) == 0
    written_as_json = capsys.readouterr()
    for text in (*written, *written_as_json):
        assert SECRET_KEY not in text
        assert ACCESS_KEY not in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "s3://lake-of-nobody/x"], "s3://lake-of-nobody: no such bucket"),
        (["--out", "s3://key:secret@lake/x"], "credentials as store options"),
        (["--out", "s4://lake/x"], "no store is called s4; nearest is s3"),
        (["--out", "memory://lake"], "memory:// exists in one process"),
        (["--out", "out", "--store-option", "acess_key=x"], "no object store"),
        (["--out", "s3://lake/x", "--store-option", "acess_key=x"], "nearest is access_key"),
        (["--out", "s3://lake/x", "--store-option", "x"], "KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_one_line(
    arguments: list[str],
    complaint: str,
    s3: LoopbackS3,
    stored: StoredQueue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    base = ["export", "--storage-path", str(stored.storage_path), "--queue", "orders", "--dry-run"]
    assert main([*base, *arguments]) == 2
    written = capsys.readouterr()
    assert complaint in written.err
    assert written.err.count("\n") == 1
    assert SECRET_KEY not in written.err
    assert list(tmp_path.iterdir()) == []
