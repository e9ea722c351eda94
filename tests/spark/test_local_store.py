"""What can be different about a directory: links, file systems, limits."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from appendlog.spark.exporting.export import QueueExport
from appendlog.spark.exporting.stores.local_store import LocalStore, OutputFiles
from tests.spark.builders import plain_messages, store_queue
from tests.spark.commits import destination, export, visible_offsets
from tests.spark.local_exports import destination as queue_destination
from tests.spark.local_exports import plan, run_all


class NoLinks(OutputFiles):
    """A file system without hard links."""

    def link(self, source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(target))


class TwoDisks(OutputFiles):
    """Where `_amqplog` and the folders of queues are on different file systems."""

    def rename(self, source: Path, target: Path) -> None:
        if "_amqplog" in source.parts and "_amqplog" not in target.parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))
        super().rename(source, target)


@pytest.fixture
def few_files() -> Iterator[int]:
    """A limit of open files as a shell has it, only lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = Path("/proc/self/fd")
    here = len(list(descriptors.iterdir())) if descriptors.exists() else 64
    # Tests before may have left hundreds open, in caches: a quarter of the limit is for locks.
    few = 2 * here + 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_system_without_links_has_exports_too(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out", NoLinks())
    assert export(destination(store), 10)
    assert export(destination(store), 15)
    assert visible_offsets(store.root) == list(range(15))
    with pytest.raises(FileExistsError):
        store.create("_amqplog/orders/manifest/00000000000000000001.json", b"")
    assert not [file for file in store.list("") if "_tmp-" in file.path]


def test_a_folder_that_is_a_link_to_another_disk_gets_its_files(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out", TwoDisks())
    (tmp_path / "other").mkdir()
    store.root.mkdir()
    (store.root / "queue=orders").symlink_to(tmp_path / "other")
    assert export(destination(store), 10)
    assert len(list((tmp_path / "other").iterdir())) == 3
    assert [file.path for file in store.list("_amqplog/orders")] == [
        "_amqplog/orders/lock",
        "_amqplog/orders/manifest/00000000000000000000.json",
    ]


def test_a_linked_folder_of_manifests_is_seen(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out")
    assert export(destination(store), 10)
    manifests = store.root / "_amqplog" / "orders" / "manifest"
    manifests.rename(tmp_path / "elsewhere")
    manifests.symlink_to(tmp_path / "elsewhere")
    assert not export(destination(store), 10)
    (store.root / "queue=orders" / "loop").symlink_to(store.root)
    assert export(destination(store), 15)
    assert len(store.list("queue=orders")) < 20


def test_more_queues_than_open_files_are_exported(tmp_path: Path, few_files: int) -> None:
    exports = []
    for number in range(few_files + 10):
        stored = store_queue(tmp_path / "data", f"q{number}")
        stored.append(plain_messages(2))
        stored.close()
        to = queue_destination(stored, tmp_path / "out")
        exports.append(QueueExport(plan(stored, to), to))
    outcomes = run_all(exports)
    assert [each.error for each in outcomes] == [None] * len(exports)


def test_a_lock_that_is_too_many_is_not_taken(tmp_path: Path, few_files: int) -> None:
    store = LocalStore(tmp_path / "out")
    with ExitStack() as stack:
        held = [stack.enter_context(store.locked(f"{at}/lock")) for at in range(few_files)]
    assert held[0]
    assert not held[-1]
    with store.locked("1/lock") as is_alone:
        assert is_alone
