"""Outputs that somebody has changed, or that were made with other options."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.output_layout import OutputLayout
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.layout import folder_name
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import StoredFile
from cli.main import main
from tests.spark.builders import plain_messages, store_queue
from tests.spark.commits import destination, export, plan, queue_log, visible_offsets
from tests.spark.local_exports import export as export_queue
from tests.spark.local_exports import run_here
from tests.spark.log_exports import export_log, stored_queue


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "out")


def gap(to: FilesDestination, start: int, end: int) -> None:
    job = plan(to, end, start)
    with to.begin(job):
        to.commit(job, (), [(start, end)], ())


def test_a_kind_of_output_is_kept_behind_an_export_without_files(store: LocalStore) -> None:
    assert export(destination(store), 10)
    gap(destination(store), 10, 12)
    with pytest.raises(OutputError, match="has files of kind parquet, not jsonl"):
        FilesDestination(store, queue_log(), OutputLayout(store, "jsonl")).covered()
    assert FilesDestination(store, queue_log(), OutputLayout(store, "parquet")).covered() == [
        (0, 12)
    ]


def test_folders_by_time_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(monkeypatch)
    stored = store_queue(tmp_path / "data")
    stored.append(plain_messages(10))
    command = ["export", "--storage-path", str(tmp_path / "data"), "--queue", "orders"]
    command += ["--out", str(tmp_path / "out")]
    assert main([*command, "--partition-by", "day"]) == 0
    stored.append(plain_messages(10))
    stored.close()
    for other, advice in ((), "--partition-by day"), (("--partition-by", "hour"), "by day"):
        assert main([*command, *other]) == 2
        assert advice in capsys.readouterr().err
    assert main([*command, "--partition-by", "day"]) == 0


def test_a_manifest_that_was_removed_makes_no_row_twice(store: LocalStore) -> None:
    assert export(destination(store), 10)
    assert export(destination(store), 20, file_rows=10)
    manifests = sorted((store.root / "_amqplog" / "orders" / "manifest").iterdir())
    manifests[-1].unlink()
    with pytest.raises(OutputError, match=r"no manifest names it.*vacuum"):
        export(destination(store), 30)
    assert visible_offsets(store.root) == list(range(20))
    assert main(["export", "vacuum", "--out", str(store.root)]) == 0
    assert export(destination(store), 30)
    assert visible_offsets(store.root) == list(range(30))


def test_lines_without_manifests_are_not_written_beside(store: LocalStore) -> None:
    (store.root / "queue=orders").mkdir(parents=True)
    name = "part-00000000000000000000-00000000000000000004.jsonl"
    (store.root / "queue=orders" / name).write_bytes(b"")
    with pytest.raises(OutputError, match="no manifest names it"):
        export(FilesDestination(store, queue_log(), OutputLayout(store, "jsonl")), 10)


class CommitsMeanwhile(LocalStore):
    """A store without locks; another export commits when files are listed for the second time."""

    meanwhile: Callable[[], object] | None = None

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        yield False

    def list(self, folder: str) -> list[StoredFile]:
        if folder == "queue=orders" and self.meanwhile is not None:
            do, self.meanwhile = self.meanwhile, None
            do()
        return super().list(folder)


def test_one_that_was_overtaken_does_not_call_the_files_unlisted(tmp_path: Path) -> None:
    store = CommitsMeanwhile(tmp_path / "out")
    late, quick = destination(store), destination(store)
    assert export(late, 10)
    job = plan(late, 20)
    store.meanwhile = lambda: export(quick, 20)
    with pytest.raises(OutputChangedError), late.begin(job):
        pass
    assert visible_offsets(store.root) == list(range(20))


def test_files_that_leave_messages_out_are_not_taken_over(tmp_path: Path) -> None:
    stored = stored_queue(tmp_path / "data")
    store = LocalStore(tmp_path / "out")
    export_queue(stored, store.root)
    covered = FilesDestination(store, stored.location).covered()
    shutil.rmtree(store.root / "_amqplog")
    to = FilesDestination(store, stored.location)
    assert to.covered() == covered
    (first, *_) = sorted((store.root / "queue=orders").iterdir())
    rows = pq.read_table(first, partitioning=None)
    metadata = {
        f"amqplog.{name}": str(value)
        for name, value in (
            ("vhost", "/"),
            ("queue", "orders"),
            ("incarnation", stored.location.incarnation),
            ("excluded", 3),
        )
    }
    pq.write_table(rows.replace_schema_metadata(metadata), first)
    with pytest.raises(OutputError, match="with --include"):
        to.covered()


def test_two_queues_never_share_a_folder() -> None:
    names = ["\udcff", "\\xff", "%FF", "\u00ff", "a", "A"]
    assert len({folder_name(name) for name in names}) == len(names)


def test_status_tells_of_queues_that_are_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = LocalStore(tmp_path / "out")
    stored = stored_queue(tmp_path / "data")
    export_log(store, stored.location)
    other = store_queue(tmp_path / "elsewhere", "invoices")
    other.append(plain_messages(3))
    other.close()
    export_log(store, other.location)
    again = replace(queue_log("again"))
    assert export(FilesDestination(store, again), 4)
    kept = store_queue(tmp_path / "data", "again")
    kept.close()
    where = ["--out", str(store.root), "--storage-path", str(tmp_path / "data")]
    assert main(["export", "status", *where]) == 0
    shown = capsys.readouterr().out
    assert "no durable queue 'invoices'" in shown
    assert "deleted and declared again" in shown
    assert main(["export", "verify", "--queue", "invoices", *where]) == 0
    assert "no durable queue 'invoices'" in capsys.readouterr().out
