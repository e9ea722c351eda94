"""`amqp-server export verify`, and what it finds."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.manifest import decode_manifest, encode_manifest
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.committing.output_layout import OutputLayout
from appendlog.spark.exporting.layout import part_name
from appendlog.spark.exporting.stores.local_store import LocalStore
from cli.main import main
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.commits import destination, plan, queue_log, write_file, write_files
from tests.spark.damage import flip
from tests.spark.log_exports import export_log, stored_queue

Verify = Callable[..., dict[str, Any]]


@pytest.fixture
def stored(tmp_path: Path) -> StoredQueue:
    return stored_queue(tmp_path / "data")


@pytest.fixture
def store(tmp_path: Path, stored: StoredQueue) -> LocalStore:
    """Give an output of two exports, complete."""
    store = LocalStore(tmp_path / "out")
    export_log(store, stored.location, until=40)
    export_log(store, stored.location)
    return store


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        out = str(tmp_path / "out")
        assert main(["export", "verify", "--out", out, "--json", *arguments]) == code
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert found["is_complete"] == (code == 0)
        return found

    return run


def files(store: LocalStore) -> list[Path]:
    return sorted(store.root.glob("queue=orders/*.parquet"))


def test_a_complete_output_adds_up(store: LocalStore, verify: Verify, tmp_path: Path) -> None:
    for arguments in ([], ["--deep"], ["--deep", "--storage-path", str(tmp_path / "data")]):
        found = verify(*arguments)
        assert (found["covered"], found["rows"], found["missing"]) == ([[0, 107]], 100, 7)
        assert (found["exports"], found["files"], found["faults"]) == (2, len(files(store)), [])
        assert found["is_deep"] == bool(arguments)
    assert found["log"]["compared_rows"] == 100


def test_the_verdict_is_a_line(
    store: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "verify", "--out", str(store.root), "--queue", "orders"]) == 0
    assert (
        "queue 'orders': complete: [0, 107): 100 rows + 7 not in the log = 107 offsets; "
        in capsys.readouterr().out
    )


def test_a_file_that_is_gone_is_a_loss_with_its_offsets(store: LocalStore, verify: Verify) -> None:
    path = files(store)[1]
    path.unlink()
    (fault,) = verify(code=4)["faults"]
    start, end = (int(part) for part in path.stem.split("-")[1:])
    assert (fault["kind"], fault["start"], fault["end"]) == ("loss", start, end)
    assert path.name in fault["path"]
    assert f"[{start}, {end})" in fault["text"]


@pytest.mark.parametrize("at", [0, 100, -1])
def test_a_changed_byte_is_damage_with_its_file(store: LocalStore, verify: Verify, at: int) -> None:
    path = files(store)[0]
    flip(path, at)
    (fault,) = verify(code=5)["faults"]
    assert fault["kind"] == "corrupt"
    assert path.name in fault["text"]
    assert "sha256" in fault["text"]


def test_half_a_file_is_damage(store: LocalStore, verify: Verify) -> None:
    path = files(store)[0]
    path.write_bytes(path.read_bytes()[:100])
    assert "100 bytes, its manifest says" in verify(code=5)["faults"][0]["text"]


def test_rows_that_no_manifest_names_are_found(store: LocalStore, verify: Verify) -> None:
    (store.root / "queue=orders" / "copy.parquet").write_bytes(files(store)[0].read_bytes())
    (fault,) = verify(code=5)["faults"]
    assert "copy.parquet: no manifest names it" in fault["text"]


def rewrite(store: LocalStore, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as somebody would who can compute its checksum."""
    from appendlog.spark.exporting.committing import manifest as module

    path = store.root / Manifests(store, "orders").path(number)
    document = json.loads(path.read_bytes())
    del document["checksum"]
    change(document)
    document["checksum"] = module._checksum(document)
    path.write_bytes(encode_manifest(decode_manifest(json.dumps(document).encode(), "x")))


def test_a_damaged_manifest_is_found_even_if_it_is_not_the_last(
    store: LocalStore, verify: Verify
) -> None:
    path = store.root / Manifests(store, "orders").path(0)
    flip(path, 50)
    texts = [fault["text"] for fault in verify(code=5)["faults"]]
    assert any(f"{path.name}: damaged" in text for text in texts)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d["files"][0].update(rows=d["files"][0]["rows"] - 1), "accounted for"),
        (lambda d: d["total"].update(rows=99), "sum"),
        (lambda d: d["ranges"].__setitem__(0, [39, 107]), "were there before"),
        (lambda d: d["files"].append(dict(d["files"][0])), "files account for"),
        (
            lambda d: d["files"].append(d["files"][0] | {"start": d["files"][0]["start"] + 1}),
            "in two files",
        ),
    ],
)
def test_manifests_that_contradict_each_other_are_found(
    store: LocalStore,
    verify: Verify,
    change: Callable[[dict[str, Any]], None],
    complaint: str,
) -> None:
    rewrite(store, 1, change)
    assert any(complaint in fault["text"] for fault in verify(code=5)["faults"])


def forge(store: LocalStore, change: Callable[[list[int]], list[int]]) -> None:
    """Write other rows into the first file, and a manifest that believes its bytes."""
    path = files(store)[0]
    table = pq.read_table(path, partitioning=None)
    offsets = table.column("offset").to_pylist()
    wanted = change(offsets)
    table = table.take([offsets.index(min(max(each, 0), offsets[-1])) for each in wanted])
    at = table.schema.get_field_index("offset")
    table = table.set_column(at, table.schema.field(at), pa.array(wanted, pa.int64()))
    pq.write_table(table, path, write_statistics=False)
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()

    def believe(document: dict[str, Any]) -> None:
        grown = len(data) - document["files"][0]["bytes"]
        document["files"][0].update(bytes=len(data), sha256=sha256)
        document["total"]["bytes"] += grown

    rewrite(store, 0, believe)
    rewrite(store, 1, lambda document: document["total"].update(bytes=0))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda offsets: [offsets[0], *offsets[:-1]], "follows a row that is not below it"),
        (lambda offsets: [*offsets[:-1], 5000], "offset 5000 is not of its range"),
    ],
)
def test_every_offset_is_looked_at_if_asked(
    store: LocalStore,
    verify: Verify,
    change: Callable[[list[int]], list[int]],
    complaint: str,
) -> None:
    forge(store, change)
    assert not any(complaint in fault["text"] for fault in verify(code=5)["faults"])
    assert any(complaint in fault["text"] for fault in verify("--deep", code=5)["faults"])


def test_a_body_that_is_not_the_log_s_is_found(tmp_path: Path, verify: Verify) -> None:
    """Another log of the same queue, with other bodies in the same places."""
    first = store_queue(tmp_path / "data")
    first.append(plain_messages(20))
    first.close()
    export_log(LocalStore(tmp_path / "out"), first.location)
    other = store_queue(tmp_path / "other", incarnation=first.location.incarnation)
    other.append([*plain_messages(10), *plain_messages(5, first=100)])
    other.skip(5)
    other.append(plain_messages(5, first=20))
    other.close()
    verify("--deep")
    found = verify("--deep", "--storage-path", str(tmp_path / "other"), code=5)
    assert "body of offset 10 is not that of the log" in found["faults"][0]["text"]
    assert found["log"]["durable_end"] == 25


def test_a_log_that_ends_below_the_output_is_told(
    store: LocalStore, stored: StoredQueue, tmp_path: Path, verify: Verify
) -> None:
    older = store_queue(tmp_path / "older", incarnation=stored.location.incarnation)
    older.append(plain_messages(30))
    older.close()
    found = verify("--storage-path", str(tmp_path / "older"), code=5)
    assert "after the durable end 30" in found["faults"][0]["text"]


def test_what_was_not_exported_is_no_fault(
    tmp_path: Path, verify: Verify, stored: StoredQueue
) -> None:
    to = destination(LocalStore(tmp_path / "out"))
    for start, end in ((0, 5), (8, 10)):
        job = plan(to, end, start)
        with to.begin(job) as folder:
            files = write_files(to, folder, job.ranges, 5)
            to.commit(job, [*files], (), ())
    # These files are no Parquet: only what is said of them is of interest here.
    assert verify(code=5)["holes"] == [[5, 8]]


@pytest.mark.parametrize("extension", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_lines_are_read_however_they_are_packed(
    tmp_path: Path, verify: Verify, extension: str
) -> None:
    """A file with an offset twice, which only a deep look can find."""
    lines = b"".join(b'{"offset":%d}\n' % offset for offset in (0, 1, 1, 3))
    codec = {"gz": "gzip", "zst": "zstd"}.get(extension.rpartition(".")[2])
    data = pa.compress(lines, codec=codec, asbytes=True) if codec else lines
    store = LocalStore(tmp_path / "out")
    to = FilesDestination(store, queue_log(), OutputLayout(store, extension))
    job = plan(to, 4)
    with to.begin(job) as folder:
        with store.open_new(f"{folder}/x") as file:
            file.write(data)
        written = replace(
            write_file(to, folder, 0, 4),
            path=f"{folder}/x",
            target=part_name(0, 4, extension),
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
        to.commit(job, [written], (), ())
    verify()
    (fault,) = verify("--deep", code=5)["faults"]
    assert "offset 1 follows a row that is not below it" in fault["text"]


def test_a_commit_that_was_cut_short_is_completed(
    store: LocalStore, stored: StoredQueue, verify: Verify
) -> None:
    manifests = Manifests(store, "orders")
    moves = manifests.moves(manifests.read(1))
    for source, target in moves.items():
        store.move(target, source)
    assert verify("--deep")["rows"] == 100
    assert not store.list("_amqplog/orders/job-")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda root: None, "no manifest of any queue: nothing was exported here"),
        (lambda root: LocalStore(root).create("x.parquet", b""), "by an earlier version"),
        (lambda root: LocalStore(root).create("_delta_log/0.json", b""), "delta kernel error"),
    ],
)
def test_what_is_no_output_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    complaint: str,
) -> None:
    make(tmp_path / "out")
    for command in ("verify", "status", "vacuum"):
        assert main(["export", command, "--out", str(tmp_path / "out")]) == 2
        assert complaint in capsys.readouterr().err


def test_an_output_without_one_manifest_that_can_be_read_is_damaged(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in store.root.glob("_amqplog/orders/manifest/*"):
        path.write_bytes(b"{")
    assert main(["export", "verify", "--out", str(store.root)]) == 5
    assert "0000.json: damaged" in capsys.readouterr().err


def test_a_manifest_that_is_gone_is_damage(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    (store.root / Manifests(store, "orders").path(0)).unlink()
    assert main(["export", "verify", "--out", str(store.root)]) == 5
    assert "0000.json: this manifest is missing" in capsys.readouterr().err


def test_a_queue_that_is_not_in_the_output_is_refused(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "verify", "--out", str(store.root), "--queue", "bills"]) == 2
    assert "no manifest of queue 'bills'" in capsys.readouterr().err
