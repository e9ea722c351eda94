"""The operations on objects, the same on every store."""

import io
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from botocore.client import BaseClient

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.client import ObjectClient
from appendlog.spark.objects.connection import connect
from appendlog.spark.objects.fsspec_client import FsspecClient
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import StoreOptions
from tests.spark.object_stores import SECRET_KEY, LoopbackS3, new_memory


@pytest.fixture(params=["s3", "memory"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[ObjectClient, str]]:
    """Return a client and a key that nothing is under."""
    if request.param == "memory":
        location = Location.parse(new_memory())
        yield connect(location, StoreOptions()), location.key
        return
    s3: LoopbackS3 = request.getfixturevalue("s3")
    bucket = s3.new_bucket()
    yield connect(Location("s3", bucket), s3.options), bucket


def test_objects_are_put_read_in_parts_listed_and_removed(place: tuple[ObjectClient, str]) -> None:
    client, root = place
    content = bytes(range(256)) * 5000
    client.put(f"{root}/a/one", io.BytesIO(content))
    client.put(f"{root}/a/b/two", io.BytesIO(b""))
    client.put(f"{root}/c", io.BytesIO(b"old"))
    client.put(f"{root}/c", io.BytesIO(b"new"))

    file = client.open(f"{root}/a/one")
    assert file.size_bytes == len(content)
    assert file.read_at(1000, 77) == content[1000:1077]
    assert file.read_at(len(content) - 5, 77) == content[-5:]
    assert file.read_at(len(content), 1) == b""
    file.close()

    assert sorted(client.names(root)) == ["a", "c"]
    assert sorted(client.names(f"{root}/a")) == ["b", "one"]
    assert [(each.key, each.size_bytes) for each in client.objects(root)] == [
        (f"{root}/a/b/two", 0),
        (f"{root}/a/one", len(content)),
        (f"{root}/c", 3),
    ]
    assert client.exists(f"{root}/a")
    assert client.exists(f"{root}/c")

    client.copy(f"{root}/c", f"{root}/d/e")
    client.delete(f"{root}/c")
    client.delete(f"{root}/c")
    assert not client.exists(f"{root}/c")
    assert client.open(f"{root}/d/e").read_at(0, 9) == b"new"


def test_what_is_not_there_is_a_file_that_is_not_found(place: tuple[ObjectClient, str]) -> None:
    client, root = place
    client.put(f"{root}/there", io.BytesIO(b"x"))
    assert not client.exists(f"{root}/nowhere")
    assert client.objects(f"{root}/nowhere") == []
    for ask in (client.open, client.names, lambda key: client.copy(key, f"{root}/to")):
        with pytest.raises(FileNotFoundError):
            ask(f"{root}/nowhere")


def test_one_of_many_creates_an_object(place: tuple[ObjectClient, str]) -> None:
    client, root = place
    client.check_creates(f"{root}/_amqplog")
    start = threading.Barrier(8)
    won: list[int] = []

    def create(number: int) -> None:
        start.wait()
        try:
            client.create(f"{root}/manifest/1", b"%d" % number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert client.open(f"{root}/manifest/1").read_at(0, 9) == b"%d" % won[0]


def test_a_creation_whose_answer_was_lost_is_ours(s3: LoopbackS3) -> None:
    bucket = s3.new_bucket()
    client = connect(Location("s3", bucket), s3.options)
    client.create(f"{bucket}/m", b"of job 1")
    client.create(f"{bucket}/m", b"of job 1")  # the second try of the same request
    with pytest.raises(FileExistsError):
        client.create(f"{bucket}/m", b"of job 2")


def test_a_server_that_does_not_know_the_condition_is_refused(
    s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = BaseClient._make_api_call

    def unconditional(self: BaseClient, operation: str, arguments: dict[str, object]) -> object:
        arguments.pop("IfNoneMatch", None)
        return real(self, operation, arguments)

    bucket = s3.new_bucket()
    client = connect(Location("s3", bucket), s3.options)
    monkeypatch.setattr(BaseClient, "_make_api_call", unconditional)
    with pytest.raises(StoreError, match="If-None-Match"):
        client.check_creates(f"{bucket}/_amqplog")


def test_without_boto3_logs_are_read_and_nothing_is_created(
    s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.new_bucket()
    monkeypatch.setitem(sys.modules, "boto3", None)
    client = connect(Location("s3", bucket), s3.options)
    client.put(f"{bucket}/x", io.BytesIO(b"data"))
    assert client.open(f"{bucket}/x").read_at(0, 4) == b"data"
    with pytest.raises(StoreError, match=r"pip install 'amqp-server\[s3\]'"):
        client.check_creates(f"{bucket}/_amqplog")


def test_a_store_that_only_looks_first_is_refused() -> None:
    client = FsspecClient(None, "sftp", StoreOptions())
    with pytest.raises(StoreError, match="create a file only if there is none"):
        client.check_creates("lake")


def test_what_goes_wrong_is_one_line_without_secrets(s3: LoopbackS3) -> None:
    with_bucket = connect(Location("s3", "lake-nowhere"), s3.options)
    with pytest.raises(StoreError, match=r"^s3://lake-nowhere/x: no such bucket \(") as failed:
        with_bucket.put("lake-nowhere/x", io.BytesIO(b"x"))
    assert "\n" not in str(failed.value)
    for look in (with_bucket.check_creates, with_bucket.objects, with_bucket.names):
        with pytest.raises(StoreError, match=r"^s3://lake-nowhere(/x)?: no such bucket"):
            look("lake-nowhere/x")

    values = s3.values | {"endpoint": "http://127.0.0.1:9", "retries": "0", "timeout": "2"}
    nobody = connect(Location("s3", "lake"), StoreOptions.of(values))
    for ask in (nobody.exists, nobody.open, nobody.objects, nobody.check_creates):
        with pytest.raises(StoreError, match=r"^s3://lake/x: ") as failed:
            ask("lake/x")
        assert "\n" not in str(failed.value)
        assert SECRET_KEY not in str(failed.value)


def test_access_that_is_denied_says_so(s3: LoopbackS3) -> None:
    bucket = s3.new_bucket()
    client = connect(Location("s3", bucket), s3.options)
    client.put(f"{bucket}/there", io.BytesIO(b"x"))
    s3.deny(bucket)
    asks: list[Callable[[], object]] = [
        lambda: client.put(f"{bucket}/x", io.BytesIO(b"x")),
        lambda: client.check_creates(bucket),
        lambda: client.open(f"{bucket}/there").read_at(0, 1),
    ]
    for ask in asks:
        with pytest.raises(StoreError, match=rf"^s3://{bucket}[a-z/]*: access denied"):
            ask()
