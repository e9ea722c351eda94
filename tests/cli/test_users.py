"""`amqp-server users`, `permissions` and `topic-permissions` against a real server."""

import io
import json
import sys
from pathlib import Path

import pytest

from cli.main import main
from tests.amqp_client import ConnectionLostError, connect
from tests.servers import RunningServer

EVERY_COMMAND = (
    ["users", "list"],
    ["users", "delete", "x", "--yes"],
    ["users", "tags", "x"],
    ["users", "add", "x", "--no-password"],
    ["users", "password", "x", "--no-password"],
    ["users", "reset", "--no-password", "--yes"],
    ["permissions", "list"],
    ["permissions", "set", "x"],
    ["permissions", "clear", "x"],
    ["topic-permissions", "list"],
    ["topic-permissions", "set", "x", "e"],
    ["topic-permissions", "clear", "x"],
)


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """Return the path of a file with a password."""
    path = tmp_path / "secret"
    path.write_text("geheim\n")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be done; return what it writes."""
    code = main(arguments)
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def refuse(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run what must not be done; return the complaint, which must be one line."""
    assert main(arguments) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ").rstrip("\n")


def may_log_in(server: RunningServer, user: str, password: str) -> bool:
    try:
        with connect(server.address, user=user, password=password) as client:
            client.open_channel()
    except (ConnectionLostError, AssertionError):
        return False
    return True


def test_a_user_is_added_allowed_listed_changed_and_deleted(
    capsys: pytest.CaptureFixture[str], server: RunningServer, secret: str
) -> None:
    added = run(capsys, "users", "add", "worker", "--password-file", secret, "--tags", "a, b")
    assert added == "added user 'worker', who may do nothing yet: see amqp-server permissions\n"
    assert not may_log_in(server, "worker", "geheim")
    set_ = run(capsys, "permissions", "set", "worker", "--read", ".*", "--write", "^o")
    assert set_ == "user 'worker' may in vhost '/': configure '', write '^o', read '.*'\n"
    assert may_log_in(server, "worker", "geheim")
    assert run(capsys, "users", "list").splitlines() == [
        "NAME             TAGS           PASSWORD  VHOSTS",
        "guest (default)  administrator  sha256         1",
        "worker           a,b            scrypt         1",
    ]
    assert run(capsys, "permissions", "list").splitlines() == [
        "VHOST  USER    CONFIGURE  WRITE  READ",
        "/      guest   .*         .*     .*",
        "/      worker             ^o     .*",
    ]
    (row,) = json.loads(run(capsys, "permissions", "list", "--user", "worker", "--json"))
    assert row == {"vhost": "/", "user": "worker", "configure": "", "write": "^o", "read": ".*"}
    assert run(capsys, "users", "tags", "worker", "monitoring") == (
        "user 'worker' has the tags: monitoring\n"
    )
    assert run(capsys, "users", "password", "worker", "--no-password") == (
        "changed the password of user 'worker'\n"
    )
    assert not may_log_in(server, "worker", "geheim")
    assert run(capsys, "permissions", "clear", "worker") == (
        "user 'worker' may do nothing any more in vhost '/'\n"
    )
    assert run(capsys, "permissions", "clear", "worker") == (
        "user 'worker' had no permissions in vhost '/'\n"
    )
    assert run(capsys, "users", "delete", "worker", "--yes") == "deleted user 'worker'\n"
    assert "worker" not in run(capsys, "users", "list")


def test_topic_permissions_are_set_listed_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "topic-permissions", "set", "guest", "events", "--write", "^a", "--read", "^b")
    assert run(capsys, "topic-permissions", "list").splitlines() == [
        "VHOST  USER   EXCHANGE  WRITE  READ",
        "/      guest  events    ^a     ^b",
    ]
    assert run(capsys, "topic-permissions", "clear", "guest", "events") == (
        "user 'guest' may use all routing keys again at exchange 'events' in vhost '/'\n"
    )
    assert run(capsys, "topic-permissions", "clear", "guest") == (
        "user 'guest' had no topic permissions at all exchanges in vhost '/'\n"
    )


def test_a_hash_of_rabbitmq_is_taken_over(
    capsys: pytest.CaptureFixture[str], server: RunningServer
) -> None:
    stored = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    run(capsys, "users", "add", "old", "--password-hash", stored)
    run(capsys, "permissions", "set", "old", "--read", ".*")
    assert may_log_in(server, "old", "test12")


def test_the_password_may_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped\r\n")))
    run(capsys, "users", "add", "piped", "--password-file", "-")
    run(capsys, "permissions", "set", "piped", "--read", ".*")
    assert may_log_in(server, "piped", "piped")


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["users"], 2, "write what to do: add, delete, list, password, reset or tags"),
        (["permissions"], 2, "write what to do: clear, list or set"),
        (["users", "add", "x"], 2, "no terminal to ask for the password: write --password-file"),
        (["users", "add", "x", "--password-file", "nowhere"], 2, "No such file or directory"),
        (["users", "add", "x", "--no-password", "--password-hash", "AA=="], 2, "not several"),
        (["users", "add", "x", "--password-hash", "AA=="], 2, "the hash has 1 octets"),
        (["users", "add", "guest", "--no-password"], 1, "user 'guest' already exists"),
        (["users", "delete", "nobody", "--yes"], 1, "user 'nobody' does not exist"),
        (["users", "delete", "guest"], 2, "no terminal for the question: write --yes"),
        (["permissions", "set", "nobody"], 1, "user 'nobody' does not exist"),
        (["permissions", "set", "guest", "--vhost", "x"], 1, "vhost 'x' does not exist"),
        (["permissions", "set", "guest", "--write", "(a"], 1, "invalid write pattern"),
        (["permissions", "set", "guest", "--write", "(a{999}){999}"], 1, "too large"),
    ],
)
def test_mistakes_get_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, complaint: str
) -> None:
    assert complaint in refuse(capsys, code, *arguments)


@pytest.mark.parametrize("arguments", EVERY_COMMAND, ids=" ".join)
def test_without_a_server_every_command_says_so(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
) -> None:
    monkeypatch.setenv("AMQP_SERVER_STORAGE_PATH", str(tmp_path / "nowhere"))
    assert "nowhere" in refuse(capsys, 2, *arguments)
