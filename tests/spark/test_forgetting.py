"""Files of an output that are damaged or gone: taken out, and exported again."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.checking.verify import Proof, verify_queue
from appendlog.spark.exporting.committing.forgetting import forget_files
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.importing.exported_files import ExportedFiles
from cli.main import main
from tests.spark.builders import StoredQueue
from tests.spark.commits import destination as bare_destination
from tests.spark.commits import plan as bare_plan
from tests.spark.commits import write_files
from tests.spark.local_exports import export, request
from tests.spark.log_exports import stored_queue


@pytest.fixture
def stored(tmp_path: Path) -> StoredQueue:
    return stored_queue(tmp_path / "data")


@pytest.fixture
def store(tmp_path: Path, stored: StoredQueue) -> LocalStore:
    store = LocalStore(tmp_path / "out")
    for until in (20, 40, 70, None):
        export(stored, store.root, request(until=until))
    return store


def proof(store: LocalStore) -> Proof:
    return verify_queue(Manifests(store, "orders"), is_deep=True)


def parts(store: LocalStore) -> list[Path]:
    return sorted((store.root / "queue=orders").glob("*.parquet"))


def test_what_was_damaged_or_deleted_is_exported_again(
    store: LocalStore, stored: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = parts(store)
    before = proof(store).total
    deleted, damaged, *_ = parts(store)
    deleted.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    command = ["export", "verify", "--out", str(store.root)]
    assert main([*command, "--forget-damaged"]) == 4
    assert "forgot 2 files" in capsys.readouterr().out
    assert (store.root / "_corrupt" / "queue=orders" / damaged.name).exists()
    assert not {deleted, damaged} & set(parts(store))
    assert main(command) == 0
    assert main([*command, "--forget-damaged"]) == 0
    export(stored, store.root)
    again = proof(store)
    assert not again.faults
    assert (again.total.rows, again.total.covered) == (before.rows, before.covered)
    assert len(parts(store)) == len(whole) - 1
    exported = ExportedFiles(store)
    tables = exported.rows(exported.queues()[0], 0, 1000)
    assert sum(table.num_rows for table in tables) == before.rows
    assert main(["export", "vacuum", "--out", str(store.root)]) == 0
    assert len(parts(store)) == len(whole) - 1
    assert main(command) == 0


def test_an_export_that_runs_loses_against_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out")
    to = bare_destination(store)
    first = bare_plan(to, 8)
    with to.begin(first) as folder:
        to.commit(first, write_files(to, folder, first.ranges, 4), (), ())
    manifests = Manifests(store, "orders")
    path = "queue=orders/part-00000000000000000000-00000000000000000004.parquet"
    job = bare_plan(to, 12)
    with to.begin(job), pytest.raises(OutputError, match="another export is writing here"):
        forget_files(manifests, {path}, datetime.now(UTC))
    assert to.covered() == [(0, 8)]
    (gone,) = forget_files(manifests, {path, "queue=orders/other"}, datetime.now(UTC))
    assert (gone.path, to.covered()) == (path, [(4, 8)])
    with pytest.raises(OutputChangedError), to.begin(job):
        pass
    assert forget_files(manifests, {path}, datetime.now(UTC)) == ()


def test_one_that_was_killed_in_between_is_repeated(store: LocalStore, stored: StoredQueue) -> None:
    (damaged, *_) = parts(store)
    damaged.write_bytes(b"?")
    (store.root / "_corrupt" / "queue=orders").mkdir(parents=True)
    damaged.rename(store.root / "_corrupt" / "queue=orders" / damaged.name)
    assert main(["export", "verify", "--out", str(store.root), "--forget-damaged"]) == 4
    export(stored, store.root)
    assert not proof(store).faults
