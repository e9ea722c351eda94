"""A data directory that has lost its users is not a new one: `guest` does not come back."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from amqp_server.access.passwords import PasswordHash
from amqp_server.control.client import ask
from amqp_server.offline_recovery import recover_directory
from amqp_server.recovery.missing_parts import ALL_PARTS
from tests.access.test_damaged_documents import logged_in
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with a second user and a message."""
    path = tmp_path_factory.mktemp("whole") / "data"
    stored = PasswordHash.quick(b"secret")
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"kept", "q")
        client.expect_confirmed()
        hashed = {"password_hash": stored.text, "hashing_algorithm": stored.algorithm}
        ask(path, "users.add", name="reader", tags=[], **hashed)
        row = {"vhost": "/", "user": "reader"}
        ask(path, "permissions.set", **row, configure="^$", write="^$", read=".*")
    return path


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("control.sock"))
    return path


def may_log_in(server: ThreadedServer, user: str, password: str) -> bool:
    client = logged_in(server, user, password)
    if client is not None:
        client.close()
    return client is not None


def remove(data: Path, *names: str) -> None:
    for name in names:
        path = data / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def reset(data: Path) -> None:
    stored = PasswordHash.quick(b"again")
    hashed = {"password_hash": stored.text, "hashing_algorithm": stored.algorithm}
    ask(data, "users.reset", name="guest", **hashed)


def report_of(data: Path) -> tuple[str, list[str]]:
    """Return the outcome of the last start, and the documents that it missed."""
    report = json.loads((data / "recovery.json").read_bytes())
    unreadable = report["metadata"]["unreadable"]
    return report["outcome"], [
        str(Path(each["path"]).relative_to(data / "metadata")) for each in unreadable
    ]


RECORD: Final = "access/%/first_user.json"
USERS: Final = ["users/%/guest.json", "users/%/reader.json"]
LOSSES: Final[dict[str, tuple[list[str], list[str]]]] = {
    "users": (["metadata/users"], USERS),
    "access": (["metadata/access"], [RECORD]),
    "users and access": (["metadata/users", "metadata/access"], [*USERS, RECORD]),
    "all documents of users": (
        ["metadata/users", "metadata/access", "metadata/permissions"],
        [*USERS, RECORD],
    ),
    "and the report": (
        ["metadata/users", "metadata/access", "metadata/permissions", "recovery.json"],
        [*USERS, RECORD],
    ),
    "and the logs": (
        ["metadata/users", "metadata/access", "metadata/permissions", "logs", "offsets"],
        [*USERS, RECORD],
    ),
    "and the list of names": (
        [
            "metadata/users",
            "metadata/access",
            "metadata/permissions",
            "recovery.json",
            "metadata/names.list",
        ],
        [RECORD],
    ),
}


@pytest.mark.parametrize(("lost", "missing"), LOSSES.values(), ids=LOSSES.keys())
def test_lost_users_are_reported_and_no_first_user_comes(
    data: Path, lost: list[str], missing: list[str]
) -> None:
    if "logs" in lost:
        # Without logs only the queue proves anything; that they are gone would refuse the start.
        remove(data, "recovery.json")
    remove(data, *lost)
    with ThreadedServer(data) as server:
        outcome, found = report_of(data)
        assert outcome == "unopened"
        assert sorted(each for each in found if each.startswith(("users", "access"))) == sorted(
            missing
        )
        assert may_log_in(server, "guest", "guest") != ("metadata/users" in lost)
        damaged = {(each["kind"], each["encoded_name"]) for each in ask(data, "status")["damaged"]}
        assert ("first user", "first_user") in damaged or "metadata/access" not in lost
        reset(data)
        assert may_log_in(server, "guest", "again")
        if "users/%/reader.json" in missing:
            ask(data, "users.delete", name="reader")
        assert ask(data, "status")["damaged"] == []
    with ThreadedServer(data) as server:
        assert report_of(data) == ("clean", [])
        assert may_log_in(server, "guest", "again")


def test_a_lost_user_comes_again_without_the_rights_of_the_lost_one(data: Path) -> None:
    remove(data, "metadata/users/%/reader.json")
    stored = PasswordHash.quick(b"secret")
    hashed = {"password_hash": stored.text, "hashing_algorithm": stored.algorithm}
    with ThreadedServer(data) as server:
        assert report_of(data) == ("unopened", ["users/%/reader.json"])
        ask(data, "users.add", name="reader", tags=[], **hashed)
        assert not may_log_in(server, "reader", "secret")
        assert ask(data, "status")["damaged"] == []
    with ThreadedServer(data) as server:
        assert report_of(data) == ("clean", [])


@pytest.mark.parametrize(
    "leave",
    [
        lambda data: remove(data, "logs", "metadata/bindings", "metadata/exchanges"),
        lambda data: remove(data, "logs", "metadata/queues"),
        lambda data: remove(data, "metadata/queues"),
    ],
    ids=["a queue", "a user's permissions", "a log"],
)
def test_any_other_document_or_log_proves_that_a_directory_is_not_new(
    data: Path, leave: Callable[[Path], None]
) -> None:
    for kind in ("bindings", "exchanges"):
        (data / "metadata" / kind).mkdir(exist_ok=True)
    leave(data)
    remove(data, "metadata/users", "metadata/access", "recovery.json", "offsets")
    with ThreadedServer(data) as server:
        assert not may_log_in(server, "guest", "guest")
        assert report_of(data)[0] == "unopened"


def test_accepting_the_loss_of_all_definitions_brings_no_first_user(data: Path) -> None:
    remove(data, "metadata")
    recover_directory(data, is_dry_run=False, accepted=ALL_PARTS)
    with ThreadedServer(data) as server:
        assert not may_log_in(server, "guest", "guest")
        reset(data)
        assert may_log_in(server, "guest", "again")
