"""`export verify`, `status` and `vacuum` of Delta and Iceberg tables."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from appendlog.spark.exporting.checking import offset_set
from appendlog.spark.exporting.checking.offset_set import OffsetSet
from appendlog.spark.exporting.destination import Destination
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.tables.delta import DeltaDestination
from appendlog.spark.exporting.tables.iceberg import IcebergDestination
from appendlog.spark.exporting.tables.iceberg_catalog import TABLE, open_catalog
from appendlog.spark.planning.queues import QueueLog
from cli.main import main
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.table_files import export

Open = Callable[[LocalStore, QueueLog], Destination]
Call = Callable[..., list[dict[str, Any]]]

OTHER = "it's \N{GREEK SMALL LETTER PI}"


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=4096)
    queue.append(plain_messages(50), step=10)
    queue.skip(7)
    queue.append(plain_messages(50, first=57), step=10)
    yield queue
    queue.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def call(root: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(command: str, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        assert main(["export", command, "--out", str(root), *arguments, "--json"]) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture(params=[DeltaDestination, IcebergDestination])
def opened(request: pytest.FixtureRequest) -> Open:
    """Give each kind of table."""
    kind: Open = request.param
    return kind


def fill(opened: Open, stored: StoredQueue, root: Path) -> None:
    to = opened(LocalStore(root), stored.location)
    export(to, stored.location, root, [(0, 60), (60, 90)])


def test_the_state_of_each_queue_is_read_from_the_table(
    opened: Open, stored: StoredQueue, root: Path, tmp_path: Path, call: Call
) -> None:
    fill(opened, stored, root)
    other = store_queue(tmp_path / "data", queue=OTHER)
    other.append(plain_messages(30), step=10)
    export(opened(LocalStore(root), other.location), other.location, root, [(0, 30)])
    found = {row["queue"]: row for row in call("status", "--storage-path", str(tmp_path / "data"))}
    assert found.keys() == {"orders", OTHER}
    orders = found["orders"]
    assert (orders["covered"], orders["rows"], orders["missing"]) == ([[0, 90]], 83, 7)
    assert (orders["exports"], orders["last_end"]) == (2, 90)
    assert orders["incarnation"] == str(stored.location.incarnation)
    assert orders["log"] == {"log_start": 0, "durable_end": 107, "offsets": 17, "lost": 0}
    sizes = [path.stat().st_size for path in (root / "exports").rglob("*.parquet")]
    assert orders["files"] + found[OTHER]["files"] == len(sizes)
    assert orders["size_bytes"] + found[OTHER]["size_bytes"] == sum(sizes)
    assert orders["last_export"].endswith("Z")
    (row,) = call("status", "--queue", OTHER)
    assert row["rows"] == 30
    call("status", "--queue", "nobody", code=2)


@pytest.mark.parametrize("arguments", [(), ("--deep",)])
def test_a_table_that_is_complete_is_proved(
    opened: Open,
    stored: StoredQueue,
    root: Path,
    tmp_path: Path,
    call: Call,
    arguments: tuple[str, ...],
) -> None:
    fill(opened, stored, root)
    (proof,) = call("verify", *arguments, "--storage-path", str(tmp_path / "data"))
    assert (proof["is_complete"], proof["faults"], proof["holes"]) == (True, [], [])
    assert (proof["rows"], proof["missing"], proof["exports"]) == (83, 7, 2)
    assert "17 offsets of it are not exported yet" in proof["log"]["text"]


def test_files_that_are_gone_or_cut_are_named_with_their_offsets(
    opened: Open, stored: StoredQueue, root: Path, call: Call
) -> None:
    fill(opened, stored, root)
    cut, gone = sorted((root / "exports").rglob("*.parquet"))[:2]
    cut.write_bytes(cut.read_bytes()[:100])
    (proof,) = call("verify", code=5)
    (fault,) = proof["faults"]
    assert (fault["kind"], fault["path"]) == ("corrupt", cut.relative_to(root).as_posix())
    assert "100 bytes, the table says" in fault["text"]
    assert fault["end"] > fault["start"]
    gone.unlink()
    (proof,) = call("verify", code=4)
    assert {fault["kind"] for fault in proof["faults"]} == {"corrupt", "loss"}


def test_rows_that_somebody_has_deleted_are_named(
    opened: Open, stored: StoredQueue, root: Path, call: Call
) -> None:
    fill(opened, stored, root)
    if opened is DeltaDestination:
        DeltaTable(root).delete('"offset" >= 70 AND "offset" < 75')
    else:
        load(root).delete("offset >= 70 and offset < 75")
    (proof,) = call("verify", code=4)
    (fault,) = proof["faults"]
    assert (fault["kind"], fault["start"], fault["end"]) == ("loss", 70, 75)


def test_rows_that_are_there_twice_or_come_from_elsewhere_are_named(
    opened: Open, stored: StoredQueue, root: Path, call: Call
) -> None:
    fill(opened, stored, root)
    twice, foreign = 12, 1_000_000
    for offset in (twice, foreign):
        if opened is DeltaDestination:
            rows = DeltaTable(root).to_pyarrow_table(filters=[("offset", "=", twice)])
            write_deltalake(root, with_offset(rows, offset), mode="append")
        else:
            rows = load(root).scan(f"offset = {twice}").to_arrow()
            load(root).append(with_offset(rows, offset))
    (proof,) = call("verify", code=5)
    first, *rest = proof["faults"]
    assert (first["kind"], first["start"]) == ("corrupt", twice)
    assert "offset 12 is there twice; 1 rows are too many" in first["text"]
    assert any("1 rows have offsets that no export has added" in each["text"] for each in rest)


def test_a_table_that_was_compacted_is_as_complete_as_before(
    stored: StoredQueue, root: Path, call: Call
) -> None:
    fill(DeltaDestination, stored, root)
    DeltaTable(root).optimize.compact()
    (proof,) = call("verify")
    assert (proof["rows"], proof["files"]) == (83, 1)


def test_a_history_that_was_cut_leaves_the_rows_to_be_counted(
    stored: StoredQueue, root: Path, call: Call
) -> None:
    fill(DeltaDestination, stored, root)
    DeltaTable(root).create_checkpoint()
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020d}.json").unlink()
    (proof,) = call("verify")
    assert (proof["covered"], proof["rows"], proof["missing"]) == ([[0, 90]], 83, 7)
    DeltaTable(root).delete('"offset" >= 70 AND "offset" < 75')
    (proof,) = call("verify", code=4)
    assert (proof["faults"][0]["start"], proof["faults"][0]["end"]) == (70, 75)


def test_vacuum_says_what_cleans_a_table(
    opened: Open, stored: StoredQueue, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(opened, stored, root)
    before = LocalStore(root).list("")
    assert main(["export", "vacuum", "--out", str(root)]) == 2
    told = capsys.readouterr().err
    wanted = "vacuum(full=True" if opened is DeltaDestination else "remove_orphan_files"
    assert wanted in told
    assert told.count("\n") == 1
    assert LocalStore(root).list("") == before


def load(root: Path) -> Any:  # noqa: ANN401 - pyiceberg's table
    catalog = open_catalog(LocalStore(root), is_to_be_made=False)
    assert catalog is not None
    return catalog.load_table(TABLE)


def with_offset(rows: pa.Table, offset: int) -> pa.Table:
    at = rows.schema.get_field_index("offset")
    return rows.slice(0, 1).set_column(at, rows.schema.field(at), pa.array([offset], pa.int64()))


def test_a_set_of_offsets_is_exact_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_set, "BLOCK_OFFSETS", 16)
    monkeypatch.setattr(offset_set, "_SHIFT", 4)
    random = np.random.default_rng(7)
    for _ in range(50):
        wanted = random.choice(100, size=int(random.integers(1, 100)), replace=False)
        again = random.choice(wanted, size=int(random.integers(0, 5)))
        found = OffsetSet()
        every = random.permutation(np.concatenate([wanted, again])).astype(np.int64)
        for part in np.array_split(every, 4):
            found.add(part)
        assert (found.count, found.doubled) == (len(wanted), len(again))
        assert found.first_double == (int(again.min()) if len(again) else None)
        assert found.last() == int(wanted.max())
        start, end = sorted(random.integers(0, 120, size=2).tolist())
        missing = {at for low, high in found.missing_in(start, end) for at in range(low, high)}
        assert missing == set(range(start, end)) - set(wanted.tolist())
        assert found.count_in(start, end) == end - start - len(missing)
