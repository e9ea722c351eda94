import errno
import os
from pathlib import Path

import pytest

from appendlog.files.filesystem import FileSystem
from appendlog.spark.errors import QueueNotFoundError, StorageNotFoundError
from appendlog.spark.planning.queues import find_queue, list_queues
from metadata.paths import document_path
from tests.spark.builders import store_queue


def declare(path: Path, *names: str, vhost: str = "/") -> None:
    for name in names:
        store_queue(path, name, vhost)


@pytest.mark.parametrize("name", ["orders", "Orders", "../x", "a b", "\u00e9t\u00e9", "q" * 255])
def test_a_queue_is_found_by_its_name(tmp_path: Path, name: str) -> None:
    stored = store_queue(tmp_path, name)
    assert find_queue(tmp_path, "/", name) == stored.location


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError, match="no such data directory"):
        find_queue(tmp_path / "nowhere", "/", "orders")


def test_a_directory_of_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError, match="not a data directory"):
        find_queue(tmp_path, "/", "orders")


def test_a_queue_whose_log_is_marked_as_deleted_is_none(tmp_path: Path) -> None:
    """Its definition is still there when a crash comes behind the mark."""
    declare(tmp_path, "kept")
    gone = store_queue(tmp_path, "gone").location
    gone.directory.mkdir(parents=True, exist_ok=True)
    (gone.directory / "deleted").touch()
    with pytest.raises(QueueNotFoundError):
        find_queue(tmp_path, "/", "gone")
    assert [each.queue for each in list_queues(tmp_path, "/")] == ["kept"]


def test_the_nearest_names_are_told(tmp_path: Path) -> None:
    declare(tmp_path, "orders", "orders-eu", "invoices", "zebra")
    with pytest.raises(QueueNotFoundError) as caught:
        find_queue(tmp_path, "/", "ordes")
    assert list(caught.value.near[:2]) == ["orders", "orders-eu"]
    assert "nearest of 4: orders, orders-eu" in str(caught.value)


def test_some_names_are_told_when_none_is_near(tmp_path: Path) -> None:
    declare(tmp_path, "a", "b", "c", "d")
    with pytest.raises(QueueNotFoundError, match="nearest of 4: a, b, c"):
        find_queue(tmp_path, "/", "xxxxxx")


def test_the_right_virtual_host_is_told(tmp_path: Path) -> None:
    declare(tmp_path, "orders", vhost="shop")
    with pytest.raises(QueueNotFoundError, match="it is in virtual host shop"):
        find_queue(tmp_path, "/", "orders")
    with pytest.raises(QueueNotFoundError, match="queues in shop"):
        find_queue(tmp_path, "/", "other")


def test_no_queue_at_all_is_told(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    with pytest.raises(QueueNotFoundError, match="no durable queue at all"):
        find_queue(tmp_path, "/", "orders")


def test_an_unreadable_definition_is_named(tmp_path: Path) -> None:
    declare(tmp_path, "orders")
    path = document_path(tmp_path / "metadata", "queues", "/", "orders")
    path.write_bytes(b"{")
    with pytest.raises(StorageNotFoundError, match="not readable"):
        find_queue(tmp_path, "/", "orders")


def test_a_queue_whose_definition_cannot_be_read_now_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("billing", "orders"):
        store_queue(tmp_path, name).close()
    path = document_path(tmp_path / "metadata", "queues", "/", "orders")
    read_file = FileSystem.read_file

    def refused(self: FileSystem, asked: Path, size: int) -> bytes:
        if asked == path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return read_file(self, asked, size)

    monkeypatch.setattr(FileSystem, "read_file", refused)
    with pytest.raises(StorageNotFoundError, match=r"orders.json: .* Too many open files"):
        list_queues(tmp_path, "/")


def test_a_name_that_no_queue_can_have_is_not_there(tmp_path: Path) -> None:
    store_queue(tmp_path).close()
    with pytest.raises(QueueNotFoundError, match="nearest of 1: orders"):
        find_queue(tmp_path, "/", "order\ud800")


def test_nothing_is_changed_on_the_disk(tmp_path: Path) -> None:
    declare(tmp_path, "orders")
    half = document_path(tmp_path / "metadata", "queues", "/", "orders").with_suffix(".json.tmp")
    half.write_bytes(b"the server is writing this")
    before = sorted(tmp_path.rglob("*"))
    find_queue(tmp_path, "/", "orders")
    assert sorted(tmp_path.rglob("*")) == before
