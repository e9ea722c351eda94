"""How stores are named and reached, and that nothing shows what is secret."""

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.connection import connect
from appendlog.spark.objects.location import Location, storage_path
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.queues import QueueLog

SECRET = "wJalrXUtnFEMI"


def test_a_path_stands_for_a_place_in_a_store() -> None:
    path = storage_path("s3://lake//data/./eu/")
    assert path == Path("s3:/lake/data/eu")
    location = Location.of(path / "logs")
    assert location == Location("s3", "lake/data/eu/logs")
    assert (str(location), location.bucket) == ("s3://lake/data/eu/logs", "lake")
    assert location.path == path / "logs"


@pytest.mark.parametrize("text", ["./data", "/var/lib/amqp", "a:b/c", "C:/x"])
def test_a_path_of_this_machine_is_none(text: str) -> None:
    assert Location.of(storage_path(text)) is None


def test_a_file_url_is_a_path_of_this_machine() -> None:
    assert storage_path("file:///var/lib/amqp") == Path("/var/lib/amqp")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://", "names no bucket"),
        ("s3://key:secret@lake/x", "credentials as store"),
        ("s3://lake/x?endpoint_override=h", "has no \\?"),
        ("s3://lake/../x", "has no meaning"),
        ("lake/x", "write s3://"),
    ],
)
def test_a_url_that_is_no_place_is_refused(url: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason) as refused:
        Location.parse(url)
    assert "secret@" not in str(refused.value)
    if url.startswith("s3:"):
        with pytest.raises(StoreError, match=reason):
            Location.of(Path(url))


def test_options_never_show_what_is_secret() -> None:
    options = StoreOptions.parse(["region=eu-central-1", f"Secret_Key={SECRET}", "my-thing=hush"])
    log = QueueLog("/", "orders", UUID(int=1), Path("s3:/lake/data"), options)
    for shown in (repr(options), str(log), f"{log!r}", repr([(log,)])):
        assert SECRET not in shown
        assert "hush" not in shown
    assert "region=eu-central-1" in repr(options)
    assert pickle.loads(pickle.dumps(log)).store_options.as_dict()["secret_key"] == SECRET
    assert options.hide_in(f"it is\n  {SECRET}!") == "it is ***!"


def test_an_option_without_a_value_is_refused_and_not_repeated() -> None:
    with pytest.raises(StoreError, match="KEY=VALUE") as refused:
        StoreOptions.parse([SECRET])
    assert SECRET not in str(refused.value)


def test_an_unknown_option_of_s3_names_the_nearest() -> None:
    with pytest.raises(StoreError, match="'acess_key': nearest is access_key") as refused:
        connect(Location("s3", "lake"), StoreOptions.of({"acess_key": SECRET, "region": "x"}))
    assert SECRET not in str(refused.value)


def test_a_time_limit_that_is_no_number_is_refused() -> None:
    options = StoreOptions.of({"timeout": "soon", "region": "eu-central-1"})
    with pytest.raises(StoreError, match="timeout=soon: write a number"):
        connect(Location("s3", "lake"), options)


def test_the_environment_is_read_where_options_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "theirs")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert StoreOptions.of({}).with_environment("s3").as_dict() == {
        "access_key": "theirs",
        "secret_key": SECRET,
        "session_token": "t",
        "region": "eu-west-1",
        "endpoint": "http://127.0.0.1:1",
    }
    own = StoreOptions.of({"access_key": "ours", "secret_key": "x", "region": "eu-north-1"})
    assert own.with_environment("s3").as_dict() == {
        "access_key": "ours",
        "secret_key": "x",
        "region": "eu-north-1",
        "endpoint": "http://127.0.0.1:1",
    }, "credentials are never half from each"
    assert replace(own).with_environment("gs") == own


def test_a_store_without_a_library_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="gcsfs"):
        connect(Location("gs", "lake"), StoreOptions.of({}))
    with pytest.raises(StoreError, match="nosuch"):
        connect(Location("nosuch", "lake"), StoreOptions.of({}))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(StoreError, match="abfs:// needs adlfs: pip install adlfs"):
        connect(Location("abfs", "container"), StoreOptions.of({}))
