"""The commands that check logins, hash passwords and close connections."""

from pathlib import Path

import pytest
from pamqp.commands import Connection

from amqp_server.access.passwords import SCRYPT, SHA256, SHA512, PasswordHash
from amqp_server.audit.reading import AuditReader
from tests.amqp_client import connect
from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

LOOPBACK, ELSEWHERE = "127.0.0.1", "192.0.2.7"


def check(asking: Asking, user: str, password: str, host: str = LOOPBACK) -> object:
    return asking.ask("logins.check", user=user, password=password, peer_host=host)


def test_a_login_has_tags_and_virtual_hosts(asking: Asking) -> None:
    for vhost in ("a", "b"):
        asking.ask("vhosts.set", name=vhost)
    asking.ask("users.set", name="u", tags=["monitoring", "x y"], password="secret")
    asking.ask("permissions.set", vhost="b", user="u", configure="", write="", read="")
    expected = {"name": "u", "tags": ["monitoring", "x y"], "vhosts": ["b"]}
    assert check(asking, "u", "secret", ELSEWHERE) == expected
    asking.ask("permissions.clear", vhost="b", user="u")
    assert check(asking, "u", "secret", ELSEWHERE) == {**expected, "vhosts": []}


@pytest.mark.parametrize(
    ("user", "password", "host", "reason"),
    [
        ("guest", "wrong", LOOPBACK, "Login failed"),
        ("guest", "", LOOPBACK, "Login failed"),
        ("nobody", "guest", LOOPBACK, "Login failed"),
        ("", "", LOOPBACK, "Login failed"),
        ("guest", "guest", ELSEWHERE, "User can only log in via localhost"),
        ("guest", "guest" + "x" * 5000, LOOPBACK, "Login failed"),
        ("no-password", "", LOOPBACK, "Login failed"),
    ],
)
def test_a_refused_login_says_no_more_than_that(
    asking: Asking, user: str, password: str, host: str, reason: str
) -> None:
    asking.ask("users.set", name="no-password", tags=[])
    error = asking.refusal("logins.check", user=user, password=password, peer_host=host)
    assert (error.kind, error.reason, error.details) == ("refused", reason, {"reason": reason})


def test_a_known_login_is_told_at_once_and_another_is_not(asking: Asking) -> None:
    def known(user: str, password: str, host: str = LOOPBACK) -> object:
        return asking.ask("logins.known", user=user, password=password, peer_host=host)

    assert check(asking, "guest", "guest") == known("guest", "guest")
    # From everywhere but for `guest`.
    assert known("guest", "guest", ELSEWHERE) is None
    asking.ask("users.set", name="u", tags=["monitoring"], password="secret")
    assert known("u", "secret", ELSEWHERE) is None
    assert check(asking, "u", "secret") == known("u", "secret", ELSEWHERE)
    assert known("u", "secret" + "x" * 40_000) is None
    for user, password in (("guest", "wrong"), ("guest", ""), ("nobody", "guest"), ("", "")):
        assert known(user, password) is None
    asking.ask("users.set", name="u", tags=["monitoring"], password="other")
    assert known("u", "secret") is None


def test_logins_are_recorded_once_a_minute_and_refusals_each(tmp_path: Path) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        for _ in range(3):
            check(asking, "guest", "guest")
        asking.refusal("logins.check", user="eve", password="MARKER", peer_host=ELSEWHERE)
    events = [
        (event["event"], event["user"], event.get("peer"))
        for event in AuditReader(storage_path).new_events()
        if event["event"].startswith("user.authentication")
    ]
    assert events == [
        ("user.authentication.success", "guest", LOOPBACK),
        ("user.authentication.failure", "eve", ELSEWHERE),
    ]
    assert "MARKER" not in "".join(
        path.read_text() for path in (storage_path / "audit").iterdir() if path.is_file()
    )


@pytest.mark.parametrize("algorithm", [SCRYPT, SHA256, SHA512])
def test_a_hash_logs_in(asking: Asking, algorithm: str) -> None:
    made = asking.ask("passwords.hash", password="é", algorithm=algorithm)
    assert PasswordHash(made["hashing_algorithm"], made["password_hash"]).matches("é".encode())
    asking.ask("users.set", name="u", tags=[], **made)
    check(asking, "u", "é")


def test_what_cannot_be_hashed_is_refused(asking: Asking) -> None:
    for arguments in (
        {"password": ""},
        {"password": "x" * 5000},
        {"password": "x", "algorithm": "rabbit_password_hashing_md5"},
    ):
        assert asking.refusal("passwords.hash", **arguments).kind == "invalid_argument"


def test_connections_are_closed_with_a_reason(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    with connect(threaded_server.address) as one, connect(threaded_server.address) as other:
        (name,) = (
            each.name
            for each in threaded_server.connections
            if f":{one.socket.getsockname()[1]} " in each.name
        )
        assert asking.ask("connections.close", name=name, reason="tidy up") == 1
        close = one.expect(Connection.Close, 0)
        assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - tidy up")
        assert asking.ask("connections.close_user", user="nobody", reason="x") == 0
        assert asking.ask("connections.close_user", user="guest", reason="all of them") >= 1
        assert "all of them" in other.expect(Connection.Close, 0).reply_text
    assert asking.refusal("connections.close", name="gone", reason="x").kind == "not_found"
    long = asking.refusal("connections.close_user", user="guest", reason="x" * 201)
    assert long.kind == "invalid_argument"
