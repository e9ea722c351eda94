import shutil
from pathlib import Path

import pytest

from appendlog.spark.errors import (
    NoQueueMatchesError,
    QueueNotFoundError,
    StorageNotFoundError,
    SubscriptionError,
)
from appendlog.spark.planning.choosing import Subscription, choose_queues
from metadata.paths import document_path
from offsets import LogRoot
from tests.spark.builders import store_queue


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    for name in ("orders-eu", "orders-us", "invoices", "a,b"):
        store_queue(tmp_path, name).close()
    store_queue(tmp_path, "orders-eu", vhost="shop").close()
    return tmp_path


def chosen(storage: Path, wanted: Subscription, vhost: str = "/") -> list[str]:
    logs = choose_queues(storage, vhost, wanted)
    assert all(log.vhost == vhost for log in logs)
    return [log.queue for log in logs]


@pytest.mark.parametrize(
    "text", ["orders-us,invoices", " invoices , orders-us ,", "invoices,orders-us,invoices"]
)
def test_names_are_a_list_with_commas(storage: Path, text: str) -> None:
    assert chosen(storage, Subscription.to_names(text)) == ["invoices", "orders-us"]


@pytest.mark.parametrize("text", ["", " ", ",,"])
def test_a_list_without_names_is_refused(text: str) -> None:
    with pytest.raises(SubscriptionError, match="names no queue"):
        Subscription.to_names(text)


def test_an_unknown_name_tells_the_nearest(storage: Path) -> None:
    with pytest.raises(QueueNotFoundError, match=r"orders-uk.*nearest of 4: orders-"):
        choose_queues(storage, "/", Subscription.to_names("invoices,orders-uk"))


def test_a_pattern_must_match_the_whole_name(storage: Path) -> None:
    assert chosen(storage, Subscription.to_pattern("orders-.*")) == ["orders-eu", "orders-us"]
    assert chosen(storage, Subscription.to_pattern(".*")) == [
        "a,b",
        "invoices",
        "orders-eu",
        "orders-us",
    ]
    with pytest.raises(NoQueueMatchesError, match=r"'orders' as a whole: it has 4 .* such as a,b"):
        choose_queues(storage, "/", Subscription.to_pattern("orders"))


def test_alternatives_of_a_pattern_match_whole_names_each(storage: Path) -> None:
    assert chosen(storage, Subscription.to_pattern("orders-eu|inv")) == ["orders-eu"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(SubscriptionError, match=r"'\(' is no regular expression: .*position 0"):
        Subscription.to_pattern("(")


def test_a_virtual_host_is_looked_at_alone(storage: Path) -> None:
    assert chosen(storage, Subscription.to_pattern(".*"), "shop") == ["orders-eu"]
    with pytest.raises(NoQueueMatchesError, match=r"'nowhere'.*it has 0 durable queues"):
        choose_queues(storage, "nowhere", Subscription.to_pattern(".*"))


def test_an_assignment_can_name_a_queue_with_a_comma(storage: Path) -> None:
    wanted = Subscription.to_assignment('{"orders-us": [0], "a,b": [0]}')
    assert chosen(storage, wanted) == ["a,b", "orders-us"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders", "no JSON"),
        ('{"a":' * 100_000, "no JSON"),
        ("[0]", "no JSON object"),
        ("{}", "no JSON object"),
        ('{"orders": [0, 1]}', "queue 'orders' has one partition, 0, found \\[0, 1\\]"),
        ('{"orders": 0}', "queue 'orders' has one partition, 0, found 0"),
    ],
)
def test_an_assignment_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(SubscriptionError, match=message):
        Subscription.to_assignment(text)


def test_what_is_no_definition_is_passed_over(storage: Path) -> None:
    path = document_path(storage / "metadata", "queues", "/", "orders-eu")
    shutil.copy(path, path.with_name("copy.json"))
    path.with_name("torn.json").write_bytes(b"{")
    assert chosen(storage, Subscription.to_pattern("orders-e.*")) == ["orders-eu"]


def test_logs_of_an_embedding_program_are_queues(tmp_path: Path) -> None:
    with LogRoot.open(tmp_path / "root") as root:
        root.append("events-0", b"x")
        root.append("events-1", b"x")
        root.sync()
        logs = choose_queues(tmp_path / "root", "/", Subscription.to_pattern(r"events-\d"))
    assert [log.queue for log in logs] == ["events-0", "events-1"]
    assert all(log.directory.is_dir() for log in logs)


def test_a_pattern_needs_a_data_directory(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError, match="no such data directory"):
        choose_queues(tmp_path / "nowhere", "/", Subscription.to_pattern(".*"))
