"""Outputs in object stores: committed once, whatever ends a run, and two runs at once."""

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import pytest

from appendlog.spark.errors import StoreError
from appendlog.spark.exporting.destination import OutputChangedError
from appendlog.spark.exporting.stores.object_store import ObjectStore
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.objects.client import ObjectClient
from appendlog.spark.objects.connection import connect
from tests.spark.commits import destination, export, plan, write_files
from tests.spark.object_stores import SECRET_KEY, LoopbackS3, new_memory

STORES: dict[str, Callable[[LoopbackS3], OutputStore]] = {
    "memory": lambda _: open_store(new_memory()),
    "s3": lambda s3: open_store(f"s3://{s3.new_bucket()}/lake", s3.values),
}

CHANGES: Final = frozenset({"put", "create", "copy", "delete"})


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, s3: LoopbackS3) -> OutputStore:
    return STORES[request.param](s3)


def visible(store: OutputStore) -> list[int]:
    """Return the offsets that a reader finds who knows nothing of manifests."""
    files = [file.path for file in store.list("") if not file.path.startswith("_")]
    return sorted(offset for path in files for offset in json.loads(store.read(path)))


def test_exports_follow_each_other(store: OutputStore) -> None:
    assert export(destination(store), 10)
    assert visible(store) == list(range(10))
    assert not export(destination(store), 10)
    assert export(destination(store), 25)
    assert visible(store) == list(range(25))
    assert destination(store).last_end() == 25
    unfinished = [file.path for file in store.list("") if "/job-" in file.path]
    assert unfinished == []


def test_of_two_exports_at_once_one_wins(store: OutputStore) -> None:
    both_have_written = threading.Barrier(2)
    outcomes: list[str] = []

    def run(file_rows: int) -> None:
        to = destination(store)
        job = plan(to, 20)
        try:
            with to.begin(job) as folder:
                files = write_files(to, folder, job.ranges, file_rows)
                both_have_written.wait()
                to.commit(job, files, (), ())
        except OutputChangedError:
            outcomes.append("refused")
        else:
            outcomes.append("committed")

    threads = [threading.Thread(target=run, args=(rows,)) for rows in (3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["committed", "refused"]
    assert not export(destination(store), 20)
    assert visible(store) == list(range(20))


class Killed(BaseException):
    """What ends a process, for those who catch nothing."""


class MortalClient:
    """A client whose process dies before or after its operation N that changes something."""

    def __init__(self, client: ObjectClient, operations: int, *, is_done: bool) -> None:
        self._client = client
        self._left = operations
        self._is_done = is_done

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._client, name)
        return partial(self._change, method) if name in CHANGES else method

    def _change(self, do: Callable[..., Any], *arguments: object) -> None:
        self._left -= 1
        if self._left >= 0 or (self._left == -1 and self._is_done):
            do(*arguments)
        if self._left < 0:
            raise Killed


class MortalStore(ObjectStore):
    """A store with such a client."""

    concurrency = 1

    def __init__(self, store: ObjectStore, operations: int, *, is_done: bool) -> None:
        super().__init__(store.location, store.options)
        client = connect(store.location, store.options)
        self._mortal = MortalClient(client, operations, is_done=is_done)

    @property
    def _client(self) -> ObjectClient:
        return cast("ObjectClient", self._mortal)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_run_that_is_killed_at_any_operation_is_completed(*, is_done: bool) -> None:
    deaths = 0
    for operations in range(60):
        store = open_store(new_memory())
        assert isinstance(store, ObjectStore)
        export(destination(store), 4)
        try:
            export(destination(MortalStore(store, operations, is_done=is_done)), 12)
        except Killed:
            deaths += 1
        else:
            break
        seen = visible(store)
        assert len(seen) == len(set(seen))
        export(destination(store), 15)
        assert visible(store) == list(range(15))
    assert deaths >= 7, "two files, a manifest, two copies with deletions"


def test_a_copy_that_was_not_followed_by_its_deletion_is_repeated(store: OutputStore) -> None:
    store.create("job/x", b"data")
    store.create("final/x", b"data")
    store.move("job/x", "final/x")
    store.move("job/x", "final/x")
    assert [file.path for file in store.list("")] == ["final/x"]


def test_a_file_is_read_here_and_there(store: OutputStore) -> None:
    content = bytes(range(256)) * 1000
    with store.open_new("x") as file:
        file.write(content)
    with store.open_read("x") as file:
        assert file.seek(-4, 2) == len(content) - 4
        assert file.read() == content[-4:]
        assert file.seek(100_000) == file.tell() == 100_000
        assert file.read(300) == content[100_000:100_300]
        assert file.seek(-300, 1) == 100_000


def test_what_cannot_be_written_is_known_before_anything_is(s3: LoopbackS3) -> None:
    missing = open_store("s3://lake-of-nobody/x", s3.values)
    to = destination(missing)
    with pytest.raises(StoreError, match="no such bucket"), to.begin(plan(to, 5)):
        pytest.fail("begun")
    bucket = s3.new_bucket()
    s3.deny(bucket)
    to = destination(open_store(f"s3://{bucket}/x", s3.values))
    with pytest.raises(StoreError, match="access denied") as refused, to.begin(plan(to, 5)):
        pytest.fail("begun")
    assert SECRET_KEY not in str(refused.value)


def test_an_output_shows_no_secret(s3: LoopbackS3) -> None:
    store = open_store(f"s3://{s3.new_bucket()}/lake", s3.values)
    assert isinstance(store, ObjectStore)
    export(destination(store), 5)
    shown = [repr(store), str(vars(store)), store.url, repr(destination(store))]
    stored = [store.read(file.path).decode() for file in store.list("")]
    for text in shown + stored:
        assert SECRET_KEY not in text


def test_another_queue_of_an_output_is_its_own(store: OutputStore) -> None:
    assert export(destination(store, "a"), 3)
    assert export(destination(store, "a/b"), 4)
    assert destination(store, "a").last_end() == 3
    assert destination(store, "a/b").last_end() == 4
