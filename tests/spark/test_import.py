"""Import: an export becomes the same messages again, each once, from every kind of output."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from amqp_server.admin.imports.message_check import fault_of
from appendlog.reader import LogReader
from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.json_lines_format import JsonLinesFormat
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from appendlog.spark.importing import exported_files, windows
from appendlog.spark.importing.exported import ExportedQueue
from appendlog.spark.importing.exported_files import ExportedFiles
from appendlog.spark.importing.message_import import missing_ranges
from appendlog.spark.importing.opening import open_exported
from appendlog.spark.planning.queues import QueueLog, find_queue
from cli.main import main
from tests.amqp_client import connect
from tests.servers import REPOSITORY, RunningServer
from tests.spark.builders import (
    StoredQueue,
    all_kinds_of_messages,
    plain_message,
    plain_messages,
    store_queue,
)
from tests.spark.table_files import export

COMMAND = "import sys; from cli.main import main; sys.exit(main(sys.argv[1:]))"

Open = Callable[[LocalStore, QueueLog], Destination]
KINDS: dict[str, tuple[Open, FileFormat | None]] = {
    "parquet": (FilesDestination, None),
    "jsonl": (FilesDestination, JsonLinesFormat()),
    "jsonl.gz": (FilesDestination, JsonLinesFormat("gz")),
    "jsonl.zst": (FilesDestination, JsonLinesFormat("zst")),
    "delta": (DeltaDestination, None),
    "iceberg": (IcebergDestination, None),
}


def stored_messages(storage_path: Path, queue: str) -> list[bytes]:
    """Return what the log of a queue has."""
    log = find_queue(storage_path, "/", queue)
    with LogReader(log.directory) as reader:
        return [message for batch in reader.read(None, None) for message in batch.messages]


def exported(
    tmp_path: Path, kind: str, messages: list[bytes], segment_bytes: int = 1 << 20
) -> StoredQueue:
    """Store messages and export them to `tmp_path / "lake"`."""
    stored = store_queue(tmp_path / "old", segment_bytes=segment_bytes)
    stored.append(messages, step=7)
    open_destination, file_format = KINDS[kind]
    lake = tmp_path / "lake"
    middle = len(messages) // 2
    for bounds in ((0, middle), (middle, len(messages))):
        destination = open_destination(LocalStore(lake), stored.location)
        export(destination, stored.location, lake, [bounds], file_format=file_format)
    stored.close()
    return stored


@dataclass(frozen=True, slots=True)
class Result:
    """What a command did: its exit code, and what it wrote."""

    exit_code: int
    stdout: str
    stderr: str


RunImport = Callable[..., Result]


@pytest.fixture
def run_import(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> RunImport:
    base = ["--storage-path", str(server.storage_path), "--from", str(tmp_path / "lake")]

    def run(*options: str) -> Result:
        code = main(["import", *base, *options])
        written = capsys.readouterr()
        return Result(code, written.out, written.err)

    return run


def declare(server: RunningServer, *queues: str) -> None:
    with connect(server.address) as client:
        client.open_channel()
        for queue in queues:
            client.declare(queue)


def valid_messages() -> list[bytes]:
    """Return messages of every kind that a broker takes, small, empty and large."""
    # What another program wrote, with properties that do not add up, no broker takes.
    found = [message for message in all_kinds_of_messages() if not fault_of(message, 1 << 30)]
    assert len(found) > 10
    return [*found, plain_message(1, 0), plain_message(2, 3 << 20), *plain_messages(50)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_comes_back_byte_for_byte_and_once(
    server: RunningServer, run_import: RunImport, tmp_path: Path, kind: str
) -> None:
    wanted = valid_messages()
    exported(tmp_path, kind, wanted)
    declare(server, "restored")
    dry = run_import("--queue", "restored", "--dry-run", "--json")
    assert json.loads(dry.stdout)["imported"] == len(wanted)
    done = run_import("--queue", "restored", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["imported"], report["ranges"]) == (len(wanted), [[0, len(wanted)]])
    assert stored_messages(server.storage_path, "restored") == wanted
    again = run_import("--queue", "restored")
    assert again.exit_code == 3
    assert "nothing new" in again.stdout
    assert stored_messages(server.storage_path, "restored") == wanted
    # And once more the same way: what is exported of it is what was imported.
    second = find_queue(server.storage_path, "/", "restored")
    open_destination, file_format = KINDS[kind]
    lake = tmp_path / "second"
    destination = open_destination(LocalStore(lake), second)
    export(destination, second, lake, [(0, len(wanted))], file_format=file_format)
    source = open_exported(str(lake))
    (queue,) = source.queues()
    rows = [
        (row["offset"], row["envelope"] + row["value"])
        for table in source.rows(queue, 0, len(wanted))
        for row in table.to_pylist()
    ]
    assert rows == list(enumerate(wanted))


def test_ranges_come_in_any_order_each_once_and_again_means_again(
    server: RunningServer, run_import: RunImport, tmp_path: Path
) -> None:
    wanted = plain_messages(100)
    exported(tmp_path, "parquet", wanted)
    declare(server, "q")
    for options in (["--since", "60"], ["--until", "20"], [], ["--since", "90", "--again"]):
        assert run_import("--queue", "q", *options).exit_code == 0
    assert stored_messages(server.storage_path, "q") == [
        *wanted[60:],
        *wanted[:20],
        *wanted[20:60],
        *wanted[90:],
    ]


def test_what_is_new_in_the_output_is_all_that_comes_the_next_time(
    server: RunningServer, run_import: RunImport, tmp_path: Path
) -> None:
    stored = store_queue(tmp_path / "old")
    declare(server, "q")
    lake = tmp_path / "lake"
    for end in (30, 50):
        stored.append(plain_messages(end - stored.log.log_end_offset, stored.log.log_end_offset))
        destination = FilesDestination(LocalStore(lake), stored.location)
        start = destination.last_end() or 0
        export(destination, stored.location, lake, [(start, end)])
        done = run_import("--queue", "q")
        assert f"imported {end - start} messages" in done.stdout
    stored.close()
    assert stored_messages(server.storage_path, "q") == plain_messages(50)


def test_mistakes_are_one_line_that_says_what_to_do(
    server: RunningServer, run_import: RunImport, tmp_path: Path
) -> None:
    exported(tmp_path, "parquet", plain_messages(10))
    declare(server, "orders")
    for options, text in (
        (["--queue", "ordrs"], "no queue 'ordrs' in vhost '/'; nearest of 1: orders"),
        (["--queue", "orders", "--source-queue", "order"], "there is orders"),
    ):
        result = run_import(*options)
        assert result.exit_code == 2
        assert text in result.stderr
        assert len(result.stderr.splitlines()) == 1
    empty = run_import("--queue", "orders", "--from", str(tmp_path / "none"))
    assert (empty.exit_code, "no output of an export" in empty.stderr) == (2, True)
    two = store_queue(tmp_path / "old", queue="bills")
    two.append(plain_messages(3))
    lake = tmp_path / "lake"
    export(FilesDestination(LocalStore(lake), two.location), two.location, lake, [(0, 3)])
    two.close()
    result = run_import("--queue", "orders")
    assert "2 queues are in it (bills, orders): name one with --source-queue" in result.stderr
    assert run_import("--queue", "orders", "--source-queue", "bills").exit_code == 0
    server.kill()
    result = run_import("--queue", "orders", "--source-queue", "orders")
    assert (result.exit_code, "no server is running" in result.stderr) == (2, True)


def test_an_output_without_envelopes_is_refused(
    server: RunningServer, run_import: RunImport, tmp_path: Path
) -> None:
    exported(tmp_path, "jsonl", plain_messages(10))
    for path in (tmp_path / "lake").glob("queue=*/*.jsonl"):
        path.write_text(path.read_text().replace('"envelope"', '"cover"'))
    declare(server, "q")
    result = run_import("--queue", "q")
    assert (result.exit_code, "no column `envelope`" in result.stderr) == (2, True)
    assert stored_messages(server.storage_path, "q") == []


def test_a_file_that_was_committed_and_not_moved_yet_is_read(tmp_path: Path) -> None:
    stored = exported(tmp_path, "parquet", plain_messages(20))
    store = LocalStore(tmp_path / "lake")
    manifests = Manifests(store, "orders")
    manifest = manifests.read(1)
    for unfinished, target in manifests.moves(manifest).items():
        store.move(target, unfinished)
    source = open_exported(str(tmp_path / "lake"))
    (queue,) = source.queues()
    assert queue.identity == str(stored.location.incarnation)
    found = [row["offset"] for table in source.rows(queue, 0, 20) for row in table.to_pylist()]
    assert found == list(range(20))


class MovingStore(LocalStore):
    """Another process completes a commit between two looks for one of its files."""

    def open_read(self, path: str) -> BinaryIO:
        try:
            return super().open_read(path)
        except FileNotFoundError:
            manifests = Manifests(LocalStore(self.root), "orders")
            manifests.complete(manifests.survey())
            raise


def test_a_file_that_is_moved_while_it_is_looked_for_is_read(tmp_path: Path) -> None:
    exported(tmp_path, "parquet", plain_messages(20))
    store = MovingStore(tmp_path / "lake")
    manifests = Manifests(store, "orders")
    for unfinished, target in manifests.moves(manifests.read(1)).items():
        store.move(target, unfinished)
    source = ExportedFiles(store)
    (queue,) = source.queues()
    found = [row["offset"] for table in source.rows(queue, 0, 20) for row in table.to_pylist()]
    assert found == list(range(20))


def test_an_output_that_lacks_a_manifest_is_not_read(tmp_path: Path) -> None:
    """What the manifests behind it sum up to would else be imported without its rows."""
    exported(tmp_path, "parquet", plain_messages(20))
    LocalStore(tmp_path / "lake").delete("_amqplog/orders/manifest/00000000000000000000.json")
    with pytest.raises(OutputError, match=r"0000\.json: this manifest is missing"):
        open_exported(str(tmp_path / "lake")).queues()


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "delta", "iceberg"])
def test_rows_are_in_order_and_within_their_range_in_small_pieces(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_files, "READ_ROWS", 7)
    monkeypatch.setattr(windows, "_FIRST_OFFSETS", 5)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 1000)
    exported(tmp_path, kind, plain_messages(200), segment_bytes=4096)
    source = open_exported(str(tmp_path / "lake"))
    (queue,) = source.queues()
    tables = list(source.rows(queue, 33, 150))
    assert len(tables) > 5
    assert [row["offset"] for table in tables for row in table.to_pylist()] == list(range(33, 150))


def test_a_batch_that_was_cut_short_begins_a_range_of_its_own() -> None:
    queue = ExportedQueue("/", "q", str(uuid.uuid4()), ((0, 50), (60, 100)))
    assert missing_ranges(queue, [(0, 10)], {30: 4}, None, None) == [(10, 30), (30, 50), (60, 100)]
    assert missing_ranges(queue, [(0, 10)], {30: 4}, 30, 40) == [(30, 40)]
    assert missing_ranges(queue, [(0, 100)], {}, None, None) == []
    with pytest.raises(OutputError, match="--since 30"):
        missing_ranges(queue, [(0, 10)], {30: 4}, 35, None)
    # What was cut short and has come since is no matter.
    assert missing_ranges(queue, [(30, 40)], {}, 35, 45) == [(40, 45)]


@pytest.mark.crash
def test_an_import_that_is_killed_again_and_again_brings_each_message_once(
    server: RunningServer, run_import: RunImport, tmp_path: Path
) -> None:
    wanted = plain_messages(30_000, body_bytes=300)
    stored = store_queue(tmp_path / "old")
    stored.append(wanted, step=500)
    stored.close()
    lake = tmp_path / "lake"
    destination = FilesDestination(LocalStore(lake), stored.location)
    export(destination, stored.location, lake, [(0, len(wanted))])
    declare(server, "q")
    command = [sys.executable, "-c", COMMAND, "import", "--queue", "q"]
    arguments = ["--storage-path", str(server.storage_path), "--from", str(lake)]
    log = find_queue(server.storage_path, "/", "q")
    for reached in (1, 9_000):
        process = subprocess.Popen([*command, *arguments], cwd=REPOSITORY)
        while process.poll() is None and end_of(log) < reached:
            time.sleep(0.002)
        assert end_of(log) >= reached
        process.kill()
        process.wait()
        if reached == 1:
            server.kill()
            server.restart()
    assert run_import("--queue", "q").exit_code in (0, 3)
    assert stored_messages(server.storage_path, "q") == wanted


def end_of(log: QueueLog) -> int:
    """Return the durable end of a log."""
    with LogReader(log.directory) as reader:
        return reader.log_end_offset
