"""Exports divided by fields of messages: each range has several files, and each row is in one."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from amqp_server.protocol.field_values import FieldValue, table_of
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import PERSISTENT, encode_message
from appendlog.spark.decoding import log_batches
from appendlog.spark.exporting.committing.forgetting import forget_files
from appendlog.spark.exporting.committing.manifests import Manifests, listed_files
from appendlog.spark.exporting.files import row_groups, sibling_files
from appendlog.spark.exporting.files.offset_order import in_offset_order
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.iceberg_catalog import TABLE, open_catalog
from appendlog.spark.importing.exported_files import ExportedFiles
from cli.main import main
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.damage import flip
from tests.spark.local_exports import LocalRunner, run_here
from tests.spark.plain_reader import expected_rows, written_rows

REGIONS = ("eu", "us", "EU", "a b/c", None)
KINDS = ("parquet", "jsonl", "jsonl.gz", "jsonl.zst")

Command = Callable[..., int]
Verify = Callable[..., dict[str, Any]]


def message(number: int, region: str | None) -> bytes:
    """Return a message with a region in its headers, and a number in its JSON body."""
    pairs = {} if region is None else {"region": FieldValue(b"S", region.encode())}
    properties = Properties(delivery_mode=2, headers=table_of(pairs)).encode()
    body = json.dumps({"order": {"tier": number % 2, "number": number}}).encode()
    return encode_message(PERSISTENT, b"shop", b"order.new", properties, body)


def messages(count: int, first: int = 0) -> list[bytes]:
    """Return messages of all regions, in turn."""
    return [message(number, REGIONS[number % 5]) for number in range(first, first + count)]


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredQueue]:
    monkeypatch.setattr(log_batches, "BATCH_RECORDS", 16)
    monkeypatch.setattr(row_groups, "GROUP_ROWS", 40)
    queue = store_queue(tmp_path / "data", segment_bytes=8192)
    queue.append(messages(300), step=10)
    yield queue
    queue.close()


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> LocalRunner:
    return run_here(monkeypatch)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def export(stored: StoredQueue, out: Path, runner: LocalRunner) -> Command:
    def run(by: str | None = "header:region", *options: str) -> int:
        command = ["export", "--queue", "orders", "--out", str(out)]
        command += ["--storage-path", str(stored.storage_path), *options]
        return main(command if by is None else [*command, "--partition-by", by])

    return run


@pytest.fixture
def verify(stored: StoredQueue, out: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(code: int = 0, *options: str) -> dict[str, Any]:
        capsys.readouterr()
        command = ["export", "verify", "--out", str(out), "--deep", "--json", *options]
        assert main([*command, "--storage-path", str(stored.storage_path)]) == code
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


def parts(out: Path) -> list[Path]:
    return sorted(out.glob("queue=orders/**/part-*"))


def test_readers_see_a_column_and_each_row_once(
    stored: StoredQueue, out: Path, export: Command, verify: Verify
) -> None:
    assert export() == 0
    assert written_rows(out) == expected_rows(stored.location)
    assert sorted({path.parent.name for path in parts(out)}) == [
        "region=EU",
        "region=__HIVE_DEFAULT_PARTITION__",
        "region=a b%2Fc",
        "region=eu",
        "region=us",
    ]
    hive = ds.partitioning(
        pa.schema([("queue", pa.string()), ("region", pa.string())]), flavor="hive"
    )
    table = ds.dataset(out, partitioning=hive, exclude_invalid_files=True).to_table()
    table = table.sort_by("offset")
    assert table.column("region").to_pylist() == [REGIONS[number % 5] for number in range(300)]
    found = verify()
    assert (found["rows"], found["covered"], found["files"]) == (300, [[0, 300]], len(parts(out)))
    assert found["log"]["compared_rows"] == 300


def test_another_run_adds_what_is_new(
    stored: StoredQueue, out: Path, export: Command, verify: Verify
) -> None:
    assert export() == 0
    before = {path: path.stat().st_mtime_ns for path in parts(out)}
    assert export() == 3
    # The newest message, which tells whether the log was restored, is in one of the siblings.
    stored.append(messages(7, first=300), step=1)
    assert export() == 0
    assert export() == 3
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert written_rows(out) == expected_rows(stored.location)
    assert verify()["rows"] == 307


def test_days_come_before_fields(stored: StoredQueue, out: Path, export: Command) -> None:
    assert export("header:region,json:order.tier,day") == 0
    assert written_rows(out) == expected_rows(stored.location)
    folders = {str(path.parent.relative_to(out)) for path in parts(out)}
    assert "queue=orders/date=2023-11-14/region=us/tier=1" in folders
    assert len(folders) == 10


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_has_the_order_of_the_queue(
    stored: StoredQueue, out: Path, export: Command, verify: Verify, kind: str
) -> None:
    stored.skip(3)
    stored.append(messages(20, first=303), step=10)
    assert export("header:region,json:order.tier", "--to", kind) == 0
    exported = ExportedFiles(LocalStore(out))
    (queue,) = exported.queues()
    tables = list(exported.rows(queue, 5, 321))
    offsets = [offset for table in tables for offset in table.column("offset").to_pylist()]
    assert offsets == [*range(5, 300), *range(303, 321)]
    bodies = [body for table in tables for body in table.column("value").to_pylist()]
    assert [json.loads(body)["order"]["number"] for body in bodies] == offsets
    found = verify()
    assert (found["rows"], found["missing"], found["covered"]) == (320, 3, [[0, 323]])
    assert found["log"]["compared_rows"] == 320


def test_files_of_a_range_end_together_and_ranges_tile_the_queue(
    out: Path, export: Command, verify: Verify
) -> None:
    assert export("header:region", "--target-file-size", "1KiB") == 0
    manifests = Manifests(LocalStore(out), "orders")
    files = listed_files([manifests.read(0)])
    ranges = sorted({(file.start, file.end) for file in files})
    assert len(ranges) > 5
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert len(files) == 5 * len(ranges)
    assert len({path.name for path in parts(out)}) == len(files), "also where `eu` and `EU` are one"
    assert verify()["rows"] == 300


def test_more_values_than_open_files_make_ranges_of_their_own(
    stored: StoredQueue,
    out: Path,
    export: Command,
    verify: Verify,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sibling_files, "OPEN_FILES_MAX", 6)
    monkeypatch.setattr("appendlog.spark.exporting.files.file_task.OPEN_FILES_MAX", 6)
    many = [message(number, f"r{number % 9}") for number in range(300, 380)]
    stored.append([*many, *messages(100, first=380)], step=10)
    assert export() == 0
    assert written_rows(out) == expected_rows(stored.location)
    assert verify()["rows"] == 480


def test_a_field_with_too_many_values_is_refused_before_anything_is_exported(
    out: Path,
    export: Command,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("appendlog.spark.exporting.files.file_task.FOLDERS_MAX", 30)
    assert export("json:order.number") == 2
    error = capsys.readouterr().err
    assert "queue 'orders': json:order.number: 48 values in 48 messages" in error
    assert "30 are the most; take a field with fewer values" in error
    assert parts(out) == []
    assert not list(out.rglob("job-*/*"))
    assert export("json:order.tier") == 0


def test_an_output_has_one_field_and_says_which(
    out: Path, export: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("header:region", "--until", "100") == 0
    note = (out / "_amqplog" / "~layout.json").read_bytes()
    assert json.loads(note) == {
        "extension": "parquet",
        "time_columns": ["region"],
        "sources": {"region": "header:region"},
    }
    for by, complaint in (
        (None, "has folders region: Spark does not read folders of two kinds"),
        ("day", "export with --partition-by region=header:region, or give another --out"),
        ("region=json:order.tier", "its columns are of other fields of messages: export with"),
        ("header:region,json:order.tier", "has folders region"),
    ):
        assert export(by) == 2
        assert complaint in capsys.readouterr().err
    assert export("region=header:region") == 0


def test_a_damaged_file_goes_with_its_siblings_and_all_are_exported_again(
    stored: StoredQueue,
    out: Path,
    export: Command,
    verify: Verify,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert export("header:region", "--until", "150") == 0
    assert export() == 0
    before = len(parts(out))
    path = parts(out)[0]
    flip(path, 200)
    found = verify(5)
    assert [fault["path"] for fault in found["faults"]] == [str(path.relative_to(out))]
    forgotten = verify(5, "--forget-damaged")["forgotten"]
    assert len(forgotten) == 5
    assert len({(file["start"], file["end"]) for file in forgotten}) == 1
    assert len(parts(out)) == before - 5
    assert len(list((out / "_corrupt").rglob("part-*"))) == 5
    assert verify()["rows"] == 300 - (forgotten[0]["end"] - forgotten[0]["start"])
    assert export() == 0
    assert written_rows(out / "queue=orders") == expected_rows(stored.location)
    assert verify()["rows"] == 300


def test_whole_siblings_that_go_are_named(
    out: Path, export: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export() == 0
    parts(out)[0].unlink()
    capsys.readouterr()
    assert main(["export", "verify", "--out", str(out), "--forget-damaged"]) == 4
    said = capsys.readouterr().out
    assert "4 of them were whole, and went with a damaged one of their range: in _corrupt/" in said


def test_an_offset_that_two_siblings_have_is_found(
    out: Path, export: Command, verify: Verify
) -> None:
    """The counts are right, and the order in each file: one row is there twice, another not."""
    assert export() == 0
    manifests = Manifests(LocalStore(out), "orders")
    files = listed_files([manifests.read(0)])
    first = files[0]
    other = next(file for file in files if file.start == first.start and file.path != first.path)
    theirs = pq.ParquetFile(out / other.path).read().column("offset")
    table = pq.ParquetFile(out / first.path).read()
    forged = table.set_column(
        table.schema.get_field_index("offset"),
        table.schema.field("offset"),
        pa.chunked_array([*theirs.slice(0, 1).chunks, *table.column("offset").slice(1).chunks]),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(forged, sink, write_statistics=False)
    _replace(out, manifests, first.path, sink.getvalue().to_pybytes())
    faults = verify(5)["faults"]
    assert any("is in another file of its range, too" in fault["text"] for fault in faults)


def _replace(out: Path, manifests: Manifests, path: str, data: bytes) -> None:
    """Put other bytes into a file, and into its manifest what they are."""
    import hashlib

    from appendlog.spark.exporting.committing import manifest as module

    (out / path).write_bytes(data)
    place = out / manifests.path(0)
    document = json.loads(place.read_bytes())
    del document["checksum"]
    before = next(file for file in document["files"] if file["path"] == path)
    document["total"]["bytes"] += len(data) - before["bytes"]
    before.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    document["checksum"] = module._checksum(document)
    place.write_bytes(module._canonical(document))


def test_messages_that_a_set_of_files_lacks_are_found_in_the_log(
    stored: StoredQueue, out: Path, export: Command, verify: Verify
) -> None:
    assert export() == 0
    manifests = Manifests(LocalStore(out), "orders")
    first = listed_files([manifests.read(0)])[0]
    table = pq.ParquetFile(out / first.path).read()
    values = [b"other", *table.column("value").to_pylist()[1:]]
    forged = table.set_column(
        table.schema.get_field_index("value"), "value", pa.array(values, pa.binary())
    )
    sink = pa.BufferOutputStream()
    pq.write_table(forged, sink)
    _replace(out, manifests, first.path, sink.getvalue().to_pybytes())
    (fault,) = verify(5)["faults"]
    at = table.column("offset")[0].as_py()
    assert f"the body of offset {at} is not that of the log" in fault["text"]


def test_a_killed_move_is_completed_by_the_next_run(
    stored: StoredQueue, out: Path, export: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = LocalStore.move
    moved: list[str] = []

    def move_two(self: LocalStore, source: str, target: str) -> None:
        if len(moved) == 2:
            raise OSError(5, "input/output error")
        moved.append(target)
        move(self, source, target)

    with monkeypatch.context() as failing:
        failing.setattr(LocalStore, "move", move_two)
        assert export() == 1
    assert len(parts(out)) == 2
    assert export() == 3
    assert written_rows(out) == expected_rows(stored.location)


def test_a_delta_table_is_partitioned_by_the_field(
    stored: StoredQueue, out: Path, export: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("day,header:region", "--to", "delta", "--until", "170") == 0
    assert export("day,header:region", "--to", "delta") == 0
    table = DeltaTable(out)
    assert table.metadata().partition_columns == ["date", "region"]
    rows = pa.table(table.scan(["offset", "region"])).to_pylist()
    regions = {row["offset"]: row["region"] for row in rows}
    assert (len(rows), regions) == (300, {at: REGIONS[at % 5] for at in range(300)})
    found = pa.table(table.scan(["offset"], "region = 'a b/c'")).column("offset").to_pylist()
    assert sorted(found) == list(range(3, 300, 5))
    assert main(["export", "verify", "--out", str(out), "--deep"]) == 0
    assert export("day,region=json:order.tier", "--to", "delta") == 2
    assert "its column region is header:region, not json:order.tier" in capsys.readouterr().err
    assert export("day", "--to", "delta") == 2
    assert "the table is partitioned by date, region, not by date" in capsys.readouterr().err


def test_an_iceberg_table_is_partitioned_by_the_field(
    stored: StoredQueue, out: Path, export: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("day,header:region", "--to", "iceberg", "--until", "170") == 0
    assert export("day,header:region", "--to", "iceberg") == 0
    catalog = open_catalog(LocalStore(out), is_to_be_made=False)
    assert catalog is not None
    table = catalog.load_table(TABLE)
    assert [field.name for field in table.spec().fields] == ["timestamp_day", "region"]
    rows = table.scan().to_arrow().sort_by("offset")
    assert rows.column("region").to_pylist() == [REGIONS[number % 5] for number in range(300)]
    assert rows.column("offset").to_pylist() == list(range(300))
    scan = table.scan("region = 'a b/c'", selected_fields=("offset",))
    assert sorted(scan.to_arrow().column("offset").to_pylist()) == list(range(3, 300, 5))
    assert len(list(scan.plan_files())) < table.inspect.files().num_rows
    assert main(["export", "verify", "--out", str(out), "--deep"]) == 0
    capsys.readouterr()
    for by, complaint in (
        ("day,region=json:order.tier", "not by day,region=json:order.tier"),
        ("day", "is partitioned by day,region=header:region, not by day"),
        ("header:region", "not by region=header:region"),
    ):
        assert export(by, "--to", "iceberg") == 2
        assert complaint in capsys.readouterr().err


def test_siblings_merge_whatever_their_tables_are() -> None:
    def table(*offsets: int) -> pa.Table:
        return pa.table({"offset": pa.array(offsets, pa.int64())})

    files: list[Iterator[pa.Table]] = [
        iter([table(0, 1), table(7), table(8, 20)]),
        iter([table(2, 3, 4, 5, 6, 9, 10)]),
        iter([]),
        iter([table(30)]),
        iter([table(11), table(12, 40)]),
    ]
    merged = list(in_offset_order(files))
    assert all(each.num_rows for each in merged)
    offsets = pa.concat_tables(merged).column("offset")
    assert offsets.to_pylist() == [*range(13), 20, 30, 40]


def test_what_a_message_lacks_does_not_stop_an_export(
    stored: StoredQueue, out: Path, export: Command
) -> None:
    stored.append(plain_messages(15), step=5)
    assert export("json:order.tier") == 0
    nameless = next(path for path in parts(out) if "tier=__HIVE" in str(path))
    assert pc.min(pq.ParquetFile(nameless).read().column("offset")).as_py() == 300
    assert forget_files(Manifests(LocalStore(out), "orders"), {"other"}, datetime.now(UTC)) == ()
