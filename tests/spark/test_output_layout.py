"""The queues of an output have files of one kind, in folders of one kind: Spark reads it whole."""

from dataclasses import replace
from errno import EIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.checking.output_queues import exported_queues
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.manifest import OutputDamagedError
from appendlog.spark.exporting.committing.output_layout import LAYOUT_NAME, OutputLayout
from appendlog.spark.exporting.destination import ExportJob
from appendlog.spark.exporting.partition_fields import NO_PARTITIONS, Partitioning
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import OutputStore
from cli.main import main
from tests.spark.builders import plain_messages, store_queue
from tests.spark.commits import export, plan, queue_log, write_files
from tests.spark.local_exports import run_here


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "out")


def to(
    store: OutputStore, queue: str, extension: str = "parquet", partition_by: str | None = None
) -> FilesDestination:
    """Return the part of an output as another run opens it."""
    partitioning = Partitioning.parse(partition_by) if partition_by else NO_PARTITIONS
    return FilesDestination(store, queue_log(queue), OutputLayout(store, extension, partitioning))


def export_day(destination: FilesDestination, end: int = 10) -> None:
    """Export into the folder of a day."""
    job = plan(destination, end)
    with destination.begin(job) as place:
        commit_day(destination, job, place)


def commit_day(destination: FilesDestination, job: ExportJob, place: str) -> None:
    files = write_files(destination, place, job.ranges, 10)
    placed = [replace(file, target=f"date=2026-11-21/{file.target}") for file in files]
    destination.commit(job, placed, (), ())


class FailsAtManifests(LocalStore):
    """A store that breaks when a commit is about to be made."""

    def create(self, path: str, data: bytes) -> None:
        if "/manifest/" in path:
            raise OSError(EIO, "input/output error")
        super().create(path, data)


def test_another_queue_with_other_folders_or_files_is_refused_and_readers_take_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(monkeypatch)
    for queue in ("orders", "refunds"):
        stored = store_queue(tmp_path / "data", queue)
        stored.append(plain_messages(10))
        stored.close()
    out = tmp_path / "out"
    command = ["export", "--storage-path", str(tmp_path / "data"), "--out", str(out)]
    assert main([*command, "--queue", "orders", "--partition-by", "day"]) == 0
    for options, reason in (
        ([], "has folders date: Spark does not read folders of two kinds; export with --part"),
        (["--partition-by", "hour"], "export with --partition-by day, or give another --out"),
        (["--partition-by", "day", "--to", "jsonl"], "files of kind parquet, not jsonl"),
    ):
        assert main([*command, "--queue", "refunds", *options]) == 2
        assert reason in capsys.readouterr().err
    assert main([*command, "--queue", "refunds", "--partition-by", "day"]) == 0
    assert pq.read_table(out).num_rows == 20


def test_of_two_first_exports_at_once_with_two_layouts_one_is_refused(store: LocalStore) -> None:
    quick, late = to(store, "quick", "parquet", "day"), to(store, "late")
    job, late_job = plan(quick, 10), plan(late, 10)
    with late.begin(late_job) as late_place:
        files = write_files(late, late_place, late_job.ranges, 10)
        with quick.begin(job) as place:
            commit_day(quick, job, place)
        with pytest.raises(OutputError, match="has folders date"):
            late.commit(late_job, files, (), ())
    assert to(store, "late", "parquet", "day").covered() == []
    assert [file.path for file in store.list("queue=late")] == []
    export_day(to(store, "late", "parquet", "day"))


def test_while_another_export_is_between_its_claim_and_its_commit_it_is_not_overtaken(
    store: LocalStore,
) -> None:
    late = to(store, "late")
    job = plan(late, 10)
    with late.begin(job) as place:
        files = write_files(late, place, job.ranges, 10)
        OutputLayout(store, "parquet", Partitioning.parse("day")).claim()
        with pytest.raises(OutputError, match="has folders date"):
            late.commit(job, files, (), ())


def test_an_export_that_failed_at_its_commit_claims_nothing(store: LocalStore) -> None:
    with pytest.raises(OSError, match="input/output error"):
        export_day(to(FailsAtManifests(store.root), "orders", "parquet", "day"))
    assert store.read(LAYOUT_NAME) == b'{"extension":"parquet","time_columns":["date"]}'
    assert export(to(store, "orders"), 10)
    assert store.read(LAYOUT_NAME) == b'{"extension":"parquet","time_columns":[]}'
    with pytest.raises(OutputError, match=r"has no such folders.*without --partition-by"):
        to(store, "refunds", "parquet", "day").covered()


def test_in_an_output_of_an_earlier_version_the_files_say_the_layout(store: LocalStore) -> None:
    export_day(to(store, "orders", "parquet", "day"))
    store.delete(LAYOUT_NAME)
    export_day(to(store, "orders", "parquet", "day"), 20)
    with pytest.raises(OutputError, match="has folders date"):
        to(store, "refunds").covered()
    export_day(to(store, "refunds", "parquet", "day"))
    assert store.read(LAYOUT_NAME) == b'{"extension":"parquet","time_columns":["date"]}'


def test_queues_of_an_output_that_has_two_layouts_go_on_in_their_own(store: LocalStore) -> None:
    assert export(to(store, "orders"), 10)
    store.delete(LAYOUT_NAME)
    # As an earlier version did: it looked at the queue's own files only.
    export_day(FilesDestination(store, queue_log("refunds")))
    assert export(to(store, "orders"), 20)
    export_day(to(store, "refunds", "parquet", "day"), 20)


def test_a_note_of_the_layout_that_is_damaged_is_named(store: LocalStore) -> None:
    assert export(to(store, "orders"), 10)
    with store.open_new(LAYOUT_NAME) as file:
        file.write(b"[]")
    with pytest.raises(
        OutputDamagedError, match=r"_amqplog/~layout\.json: damaged: remove it, and"
    ):
        to(store, "refunds").covered()
    store.delete(LAYOUT_NAME)
    assert export(to(store, "refunds"), 10)


def test_a_queue_may_have_the_name_of_the_note(store: LocalStore) -> None:
    assert export(to(store, "~layout.json"), 10)
    assert export(to(store, "orders"), 10)
    assert [each.folder for each in exported_queues(store)] == [
        "queue=~layout.json",
        "queue=orders",
    ]
