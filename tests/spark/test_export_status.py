"""`amqp-server export status` and `vacuum`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.committing.vacuum import (
    RUNNING,
    TOO_YOUNG,
    VacuumReport,
    vacuum_queue,
)
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.layout import part_name
from appendlog.spark.exporting.stores.local_store import LocalStore
from cli.main import main
from tests.spark.commits import destination, export, plan, visible_offsets, write_files
from tests.spark.log_exports import export_log, stored_queue
from tests.spark.racing_exports import StoreWithoutLocks

DAY_SECONDS = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "out")
    export(destination(store), 10)
    return store


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["export", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_status_shows_each_queue(store: LocalStore, capsys: pytest.CaptureFixture[str]) -> None:
    export(destination(store, "Bills/\udcff"), 3)
    export(destination(store), 20, start=15)
    found = {row["queue"]: row for row in rows(capsys, "status", "--out", str(store.root))}
    assert found.keys() == {"orders", "Bills/\\xff"}
    orders = found["orders"]
    assert orders["covered"] == [[0, 10], [15, 20]]
    assert (orders["rows"], orders["files"], orders["exports"]) == (15, 5, 2)
    assert (orders["last_end"], orders["log"], orders["unfinished_files"]) == (20, None, 0)
    assert main(["export", "status", "--out", str(store.root)]) == 0
    shown = capsys.readouterr().out
    assert "[0, 10), [15, 20) of orders" in shown


def test_status_shows_how_far_the_output_is_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = stored_queue(tmp_path / "data")
    export_log(LocalStore(tmp_path / "out"), stored.location, until=40)
    arguments = ["status", "--out", str(tmp_path / "out"), "--storage-path"]
    (row,) = rows(capsys, *arguments, str(tmp_path / "data"))
    assert row["log"] == {"log_start": 0, "durable_end": 107, "offsets": 67, "lost": 0}
    again = stored_queue(tmp_path / "again")
    assert again.location.incarnation != stored.location.incarnation
    (row,) = rows(capsys, *arguments, str(tmp_path / "again"))
    assert row["log"] is None
    assert "deleted and declared again" in row["no_log"]


def killed(store: LocalStore, end: int) -> str:
    """Leave what an export leaves that is killed before its commit; return its folder."""
    to = destination(store)
    job = plan(to, end)
    manifests = Manifests(store, "orders")
    folder = manifests.job_path(manifests.survey().manifests, job.job_id)
    manifests.begin_job(folder, datetime.now(UTC))
    write_files(to, folder, job.ranges, 4)
    return folder


def vacuum(store: LocalStore, age_seconds: float = 0, *, is_dry_run: bool = False) -> VacuumReport:
    now = datetime.now(UTC) + timedelta(seconds=age_seconds)
    manifests = Manifests(store, "orders")
    return vacuum_queue(manifests, DAY_SECONDS, now, is_dry_run=is_dry_run)


def left(store: LocalStore) -> list[str]:
    return [file.path for file in store.list("") if "/job-" in file.path]


def test_what_a_killed_export_left_is_removed(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(store, 20)
    (row,) = rows(capsys, "status", "--out", str(store.root))
    assert row["unfinished_files"] == 4
    assert main(["export", "vacuum", "--out", str(store.root), "--dry-run"]) == 0
    assert "would remove 4 files" in capsys.readouterr().out
    assert len(left(store)) == 4
    assert main(["export", "vacuum", "--out", str(store.root)]) == 0
    assert "removed 4 files" in capsys.readouterr().out
    assert left(store) == []
    assert rows(capsys, "vacuum", "--out", str(store.root)) == []
    assert visible_offsets(store.root) == list(range(10))
    assert export(destination(store), 20)
    assert visible_offsets(store.root) == list(range(20))


def test_a_running_export_keeps_its_files(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 20)
    with to.begin(job) as folder:
        files = write_files(to, folder, job.ranges, 4)
        report = vacuum(store, 10 * DAY_SECONDS)
        assert report.removed == ()
        assert {orphan.reason for orphan in report.spared} == {RUNNING}
        to.commit(job, files, (), ())
    assert visible_offsets(store.root) == list(range(20))


def test_without_locks_age_decides_and_the_dead_cannot_come_back(store: LocalStore) -> None:
    store = StoreWithoutLocks(store.root)
    to = destination(store)
    job = plan(to, 20)

    @contextmanager
    def running() -> Iterator[None]:
        with to.begin(job) as folder:
            files = write_files(to, folder, job.ranges, 4)
            yield
            to.commit(job, files, (), ())

    with running():
        report = vacuum(store, DAY_SECONDS / 2)
        assert report.removed == ()
        assert {orphan.reason for orphan in report.spared} == {TOO_YOUNG}
    assert visible_offsets(store.root) == list(range(20))

    job = plan(to, 30)
    with pytest.raises(OutputChangedError), running():
        assert len(vacuum(store, 2 * DAY_SECONDS).removed) == 4
    assert visible_offsets(store.root) == list(range(20))
    assert export(to, 30)
    assert visible_offsets(store.root) == list(range(30))


def test_files_that_no_manifest_names_go_if_they_are_of_an_export(store: LocalStore) -> None:
    unlisted = f"queue=orders/{part_name(5, 8)}"
    store.create(unlisted, b"[5, 6, 7]")
    store.create("queue=orders/mine.parquet", b"[]")
    store.create("_amqplog/orders/manifest/_tmp-0", b"{")
    store.create("_amqplog/orders/job-0123/half.parquet", b"{")
    report = vacuum(store)
    assert {orphan.path for orphan in report.removed} == {
        unlisted,
        "_amqplog/orders/manifest/_tmp-0",
        "_amqplog/orders/job-0123/half.parquet",
    }
    assert [orphan.path for orphan in report.spared] == ["queue=orders/mine.parquet"]
    store.delete("queue=orders/mine.parquet")
    assert visible_offsets(store.root) == list(range(10))


def test_a_commit_that_was_cut_short_is_completed_and_not_removed(store: LocalStore) -> None:
    manifests = Manifests(store, "orders")
    for source, target in manifests.moves(manifests.read(0)).items():
        store.move(target, source)
    assert visible_offsets(store.root) == []
    assert vacuum(store, is_dry_run=True).removed == ()
    assert visible_offsets(store.root) == []
    assert vacuum(store).removed == ()
    assert visible_offsets(store.root) == list(range(10))


def test_a_manifest_that_cannot_be_read_removes_nothing(store: LocalStore) -> None:
    killed(store, 20)
    path = store.root / Manifests(store, "orders").path(0)
    path.write_bytes(b"{}")
    before = store.list("")
    with pytest.raises(OutputError, match="damaged"):
        vacuum(store)
    assert store.list("") == before
