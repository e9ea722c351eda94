"""What every store must do; a new kind of store joins by a row of `STORES`."""

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from appendlog.spark.errors import AmqplogError
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore, StoredFile
from tests.spark.object_stores import LoopbackS3, new_memory

STORES: dict[str, Callable[[Path, LoopbackS3], OutputStore]] = {
    "local": lambda path, _: open_store(str(path / "out")),
    "memory": lambda *_: open_store(new_memory()),
    "s3": lambda _, s3: open_store(f"s3://{s3.new_bucket()}/a/lake", s3.values),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, s3: LoopbackS3) -> OutputStore:
    return STORES[request.param](tmp_path, s3)


def test_a_created_file_is_read_and_listed(store: OutputStore) -> None:
    store.create("a/b/c.json", b"{}")
    store.create("a/a.json", b"")
    assert store.read("a/b/c.json") == b"{}"
    assert store.list("a") == [StoredFile("a/a.json", 0), StoredFile("a/b/c.json", 2)]
    assert store.list("") == store.list("a")
    assert store.list("a/b") == [StoredFile("a/b/c.json", 2)]
    with store.open_read("a/b/c.json") as file:
        file.seek(1)
        assert file.read() == b"}"


def test_nothing_is_in_a_store_that_is_not_there(store: OutputStore) -> None:
    assert store.list("") == []
    assert store.list("a/b") == []
    for absent in (store.read, store.open_read):
        with pytest.raises(FileNotFoundError):
            absent("a/b")


def test_a_folder_is_no_beginning_of_other_names(store: OutputStore) -> None:
    store.create("ab/c", b"1")
    store.create("a/c", b"2")
    assert store.list("a") == [StoredFile("a/c", 1)]


def test_what_is_there_is_not_created_again(store: OutputStore) -> None:
    store.create("a/b", b"first")
    with pytest.raises(FileExistsError):
        store.create("a/b", b"second")
    assert store.read("a/b") == b"first"
    assert store.list("") == [StoredFile("a/b", 5)]


def test_of_many_who_create_one_succeeds(store: OutputStore) -> None:
    won: list[bytes] = []
    barrier = threading.Barrier(8)

    def create(name: bytes) -> None:
        barrier.wait()
        try:
            store.create("a/b", name)
        except FileExistsError:
            return
        won.append(name)

    threads = [threading.Thread(target=create, args=(b"%d" % at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.read("a/b")] == won


def test_a_move_may_be_repeated(store: OutputStore) -> None:
    store.create("job/x", b"data")
    for _ in range(2):
        store.move("job/x", "final/deep/y")
        assert store.list("") == [StoredFile("final/deep/y", 4)]


def test_a_move_replaces_what_a_first_try_has_left(store: OutputStore) -> None:
    store.create("job/x", b"data")
    store.create("final/y", b"data")
    store.move("job/x", "final/y")
    assert store.list("") == [StoredFile("final/y", 4)]


def test_a_move_of_what_is_nowhere_fails(store: OutputStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.move("job/x", "final/y")
    assert store.list("") == []


def test_deleting_may_be_repeated(store: OutputStore) -> None:
    store.create("a/b/c", b"1")
    store.create("a/d", b"2")
    for _ in range(2):
        store.delete("a/b/c")
        assert store.list("") == [StoredFile("a/d", 1)]


def test_a_new_file_is_there_when_its_block_has_ended(store: OutputStore) -> None:
    with store.open_new("a/b") as file:
        file.write(b"one")
        file.write(b"two")
        with pytest.raises(FileNotFoundError):
            store.read("a/b")
    assert store.read("a/b") == b"onetwo"
    with store.open_new("a/b") as file:
        file.write(b"again")
    assert store.list("") == [StoredFile("a/b", 5)]


def test_a_new_file_is_absent_when_its_block_fails(store: OutputStore) -> None:
    with pytest.raises(ZeroDivisionError), store.open_new("a/b") as file:
        print(1 // file.write(b""))
    assert store.list("") == []


def test_a_store_goes_to_other_processes(store: OutputStore) -> None:
    store.create("a/b", b"data")
    again = pickle.loads(pickle.dumps(store))
    assert again.read("a/b") == b"data"
    assert again.url == store.url


def test_a_directory_is_empty_of_folders_that_nothing_is_in(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out")
    store.create("a/b/c", b"1")
    store.move("a/b/c", "d/e")
    assert sorted(path.name for path in store.root.rglob("*")) == ["d", "e"]
    store.delete("d/e")
    assert list(store.root.iterdir()) == []


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    first, second = LocalStore(tmp_path), LocalStore(tmp_path)
    with first.locked("a/lock") as is_alone:
        assert is_alone
        with pytest.raises(BlockingIOError), second.locked("a/lock"):
            pytest.fail("both hold the lock")
    with second.locked("a/lock"):
        pass


def test_folders_come_and_go_under_those_who_write(tmp_path: Path) -> None:
    """One deletes the last file of a folder just when another begins to write in it."""
    store = LocalStore(tmp_path / "out")
    failed: list[Exception] = []

    def churn(name: str) -> None:
        try:
            for at in range(50):
                store.create(f"a/b/{name}-{at}", b"1")
                store.move(f"a/b/{name}-{at}", f"c/{name}")
                store.delete(f"c/{name}")
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=churn, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert store.list("") == []


@pytest.mark.parametrize("uri", ["out", "./out", "file:///tmp/o%20ut"])
def test_directories_are_opened(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(uri)
    assert isinstance(store, LocalStore)
    assert store.root == (Path("/tmp/o ut") if "//" in uri else tmp_path / "out")


@pytest.mark.parametrize("uri", ["file://host/out", "gopher://host/out"])
def test_what_no_store_opens_is_refused(uri: str) -> None:
    with pytest.raises(AmqplogError, match=uri):
        open_store(uri)
