from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.destination import (
    CorruptRange,
    ExportJob,
    OutputChangedError,
    WrittenFile,
)
from appendlog.spark.exporting.layout import file_metadata, part_name
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.store import StoredFile
from tests.spark.builders import plain_messages, store_queue
from tests.spark.commits import (
    destination,
    export,
    plan,
    queue_log,
    visible_offsets,
    write_file,
    write_files,
)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "out")


class CountingStore(LocalStore):
    """Counts files that are read."""

    reads = 0

    def read(self, path: str) -> bytes:
        self.reads += 1
        return super().read(path)


def paths(store: LocalStore) -> list[str]:
    return [file.path for file in store.list("")]


def test_an_output_covers_what_was_committed(store: LocalStore) -> None:
    to = destination(store)
    assert (to.covered(), to.last_end()) == ([], None)
    assert export(to, 10)
    assert (to.covered(), to.last_end()) == ([(0, 10)], 10)
    assert export(to, 15)
    assert not export(to, 15)
    assert (to.covered(), to.last_end()) == ([(0, 15)], 15)
    assert visible_offsets(store.root) == list(range(15))


def test_ranges_may_come_in_any_order(store: LocalStore) -> None:
    to = destination(store)
    export(to, 30, start=20)
    export(to, 12, start=5)
    assert (to.covered(), to.last_end()) == ([(5, 12), (20, 30)], 30)
    export(to, 40)
    assert to.covered() == [(0, 40)]
    assert sorted(visible_offsets(store.root)) == list(range(40))


def test_nothing_but_manifests_and_files_is_left(store: LocalStore) -> None:
    export(destination(store), 5)
    assert paths(store) == [
        "_amqplog/orders/lock",
        "_amqplog/orders/manifest/00000000000000000000.json",
        "queue=orders/part-00000000000000000000-00000000000000000004.parquet",
        "queue=orders/part-00000000000000000004-00000000000000000005.parquet",
    ]


def test_the_state_is_one_file_however_many_exports_there_were(tmp_path: Path) -> None:
    store = CountingStore(tmp_path)
    to = destination(store)
    for end in range(1, 30):
        export(to, end)
    store.reads = 0
    assert to.covered() == [(0, 29)]
    assert store.reads == 1
    assert Manifests(store, "orders").read(28).total.exports == 29


def test_an_export_that_fails_leaves_nothing(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 10)
    with pytest.raises(ZeroDivisionError), to.begin(job) as folder:
        print(1 // len(write_files(to, folder, [(0, 0)], 1)))
    assert paths(store) == ["_amqplog/orders/lock"]
    assert export(to, 10)


def test_files_of_attempts_that_did_not_count_are_removed(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 4)
    with to.begin(job) as folder:
        files = write_files(to, folder, job.ranges, 4)
        store.create(f"{folder}/another-attempt", b"x")
        to.commit(job, files, (), ())
    assert not [path for path in paths(store) if "attempt" in path]


def test_a_second_export_is_refused_while_one_runs(store: LocalStore) -> None:
    first, second = destination(store), destination(store)
    with (
        first.begin(plan(first, 10)),
        pytest.raises(OutputError, match="another export is writing here"),
        second.begin(plan(second, 10)),
    ):
        pytest.fail("both have begun")


def test_exports_of_two_queues_do_not_meet(store: LocalStore) -> None:
    first, second = destination(store), destination(store, "bills")
    job = plan(first, 10)
    with first.begin(job) as folder:
        export(second, 5)
        first.commit(job, write_files(first, folder, job.ranges, 4), (), ())
    assert (first.covered(), second.covered()) == ([(0, 10)], [(0, 5)])


def test_a_plan_that_another_export_has_overtaken_is_refused(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 10)
    export(destination(store), 4)
    with pytest.raises(OutputChangedError, match="run it again"), to.begin(job):
        pytest.fail("has begun")
    assert export(to, 10)
    assert visible_offsets(store.root) == list(range(10))


def test_offsets_without_a_row_are_accounted_for(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 30)
    damage = CorruptRange(12, 15, "0.log", 100, 200, "CRC mismatch")
    with to.begin(job) as folder:
        files = write_files(to, folder, [(0, 10), (15, 20)], 10)
        to.commit(job, files, [(10, 12), (20, 30)], [damage])
    manifest = Manifests(store, "orders").read(0)
    assert to.covered() == [(0, 30)]
    assert (manifest.rows, manifest.missing, manifest.corrupt_offsets) == (15, 12, 3)
    assert manifest.corrupt == (damage,)


@pytest.mark.parametrize(
    ("start", "end", "complaint"),
    [
        (0, 9, r"\[9, 10\) are in no file"),
        (1, 10, r"\[0, 1\) are in no file"),
        (0, 11, r"\[10, 11\) were not to be exported"),
    ],
)
def test_files_that_are_not_the_plan_are_not_committed(
    store: LocalStore, start: int, end: int, complaint: str
) -> None:
    to = destination(store)
    job = plan(to, 10)
    with pytest.raises(OutputError, match=complaint), to.begin(job) as folder:
        to.commit(job, write_files(to, folder, [(start, end)], 20), (), ())
    assert paths(store) == ["_amqplog/orders/lock"]


def test_offsets_in_two_files_are_not_committed(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 10)
    with to.begin(job) as folder:
        files = [write_file(to, folder, 0, 6), write_file(to, folder, 4, 10)]
        with pytest.raises(OutputError, match=r"\[4, 6\) are in two files"):
            to.commit(job, files, (), ())
    assert to.covered() == []


def test_what_was_not_asked_for_needs_no_file(store: LocalStore) -> None:
    to = destination(store)
    job = ExportJob(0, 20, ((0, 20),), (), include="acked")
    with to.begin(job) as folder:
        to.commit(job, [write_file(to, folder, 3, 8)], [(0, 1)], ())
    manifest = Manifests(store, "orders").read(0)
    assert (manifest.rows, manifest.missing, manifest.excluded) == (5, 1, 14)
    assert to.covered() == [(0, 20)]


def test_a_file_that_is_not_as_its_task_said_is_not_committed(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 4)
    with to.begin(job) as folder:
        files = write_files(to, folder, job.ranges, 4)
        with store.open_new(files[0].path) as file:
            file.write(b"x")
        with pytest.raises(OutputError, match="its task wrote"):
            to.commit(job, files, (), ())
    assert to.covered() == []


@pytest.mark.parametrize("what", ["incarnation", "vhost", "queue"])
def test_the_output_of_another_queue_is_refused(store: LocalStore, what: str) -> None:
    export(destination(store), 10)
    other = {
        "incarnation": queue_log(incarnation=uuid4()),
        "vhost": queue_log(vhost="b"),
        "queue": queue_log(),
    }[what]
    if what == "queue":
        # Only by hand: a queue's name is that of its folder.
        manifests = store.root / "_amqplog"
        (manifests / "orders").rename(manifests / "bills")
        other = queue_log("bills")
    with pytest.raises(OutputError, match=f"{what} is .* give another --out"):
        FilesDestination(store, other).covered()


def test_a_manifest_that_somebody_removed_is_missed(store: LocalStore) -> None:
    to = destination(store)
    for end in (1, 2, 3):
        export(to, end)
    store.delete("_amqplog/orders/manifest/00000000000000000001.json")
    with pytest.raises(OutputError, match=r"0001\.json: this manifest is missing"):
        to.covered()


class LateListingStore(LocalStore):
    """Its listings lack what was created while they were made: they may show what came later."""

    def list(self, folder: str) -> list[StoredFile]:
        return [file for file in super().list(folder) if not file.path.endswith("1.json")]


def test_a_manifest_that_a_listing_passed_over_is_there(store: LocalStore) -> None:
    for end in (1, 2, 3):
        export(destination(store), end)
    to = destination(LateListingStore(store.root))
    assert to.covered() == [(0, 3)]
    assert export(to, 5)
    assert visible_offsets(store.root) == list(range(5))


def test_a_commit_that_a_retry_meets_is_our_own(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try arrived, its answer did not: the store's client tries again."""
    real = LocalStore.create

    def create(self: LocalStore, path: str, data: bytes) -> None:
        real(self, path, data)
        real(self, path, data)

    monkeypatch.setattr(LocalStore, "create", create)
    assert export(destination(store), 10)
    assert visible_offsets(store.root) == list(range(10))


def test_a_file_may_have_a_partition(store: LocalStore) -> None:
    to = destination(store)
    job = plan(to, 4)
    with to.begin(job) as folder:
        files: list[WrittenFile] = write_files(to, folder, job.ranges, 4)
        files = [replace(files[0], target=f"date=2026-11-21/{files[0].target}")]
        to.commit(job, files, (), ())
    assert visible_offsets(store.root) == [0, 1, 2, 3]
    assert (store.root / "queue=orders" / "date=2026-11-21").is_dir()


def test_an_output_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    """Files that say for themselves which offsets they cover, and no manifest."""
    stored = store_queue(tmp_path / "data", segment_bytes=2048)
    stored.append(plain_messages(60), step=10)
    stored.close()
    store = LocalStore(tmp_path / "out")
    folder = store.root / "queue=orders"
    folder.mkdir(parents=True)
    table = pa.table({"offset": list(range(8))}).replace_schema_metadata(
        file_metadata(stored.location)
    )
    pq.write_table(table, folder / part_name(0, 10))
    to = FilesDestination(store, stored.location)
    assert to.covered() == [(0, 10)]
    assert export(to, 14)
    assert to.covered() == [(0, 14)]
    manifests = Manifests(store, "orders")
    adopted = manifests.read(0)
    assert (adopted.kind, adopted.rows, adopted.missing) == ("adopted", 8, 2)
    assert manifests.read(1).total.rows == 12
    other = FilesDestination(store, queue_log())
    with pytest.raises(OutputError, match="incarnation is"):
        other.covered()


@pytest.mark.parametrize("name", ["mine.parquet", part_name(0, 9)])
def test_files_of_others_are_not_taken_over(store: LocalStore, name: str) -> None:
    store.create(f"queue=orders/{name}", b"PAR1PAR1")
    with pytest.raises(OutputError, match=name):
        destination(store).covered()


def test_earlier_files_of_another_queue_are_not_taken_over(store: LocalStore) -> None:
    folder = store.root / "queue=orders"
    folder.mkdir(parents=True)
    table = pa.table({"offset": [0]}).replace_schema_metadata(
        file_metadata(queue_log(vhost="other"))
    )
    pq.write_table(table, folder / part_name(0, 1))
    with pytest.raises(OutputError, match="vhost is other, that of the queue is /"):
        destination(store).covered()
