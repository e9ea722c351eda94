"""The session of the page: a cookie, and a token for what changes something."""

from __future__ import annotations

from http.cookies import SimpleCookie

import pytest

from amqp_server.management.http.sessions import (
    IDLE_SECONDS_MAX,
    SESSIONS_MAX,
    SESSIONS_PER_USER_MAX,
    Sessions,
)
from tests.management.conftest import ManagementServer, Reply

GUEST = {"username": "guest", "password": "guest"}


def cookie_of(reply: Reply) -> str:
    """Return the cookie that an answer sets, as a browser sends it back."""
    jar: SimpleCookie = SimpleCookie(reply.headers["set-cookie"])
    return "; ".join(f"{name}={morsel.value}" for name, morsel in jar.items())


def test_a_session_replaces_the_password(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    begun = server.post("/session", GUEST, user=None)
    cookie = {"Cookie": cookie_of(begun)}
    token = {"X-CSRF-Token": begun.json["csrf_token"]}

    assert begun.status == 200
    assert begun.json["name"] == "guest"
    assert begun.json["tags"] == ["administrator"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in begun.headers["set-cookie"]
    assert server.get("/api/overview", user=None, headers=cookie).status == 200
    assert server.get("/session", user=None, headers=cookie).json == begun.json

    path = "/api/queues/%2F/session"
    refused = server.put(path, user=None, headers=cookie)
    assert (refused.status, refused.json["error"]) == (401, "not_authorised")
    assert server.put(path, user=None, headers=cookie | token).status == 201
    for wrong in ("x", "\xff", ""):
        reply = server.delete(path, user=None, headers=cookie | {"X-CSRF-Token": wrong})
        assert reply.status == 401
    assert server.delete(path, user=None, headers=cookie | token).status == 204

    assert server.delete("/session", user=None, headers=cookie).status == 401
    ended = server.delete("/session", user=None, headers=cookie | token)
    assert (ended.status, "Max-Age=0" in ended.headers["set-cookie"]) == (204, True)
    assert server.get("/api/overview", user=None, headers=cookie).status == 401


def test_a_wrong_password_begins_none(shared_management_server: ManagementServer) -> None:
    body = {"username": "guest", "password": "no"}
    reply = shared_management_server.post("/session", body, user=None)

    assert (reply.status, reply.json["reason"]) == (401, "Login failed")
    # Or the browser would ask for a password by itself.
    assert "www-authenticate" not in reply.headers
    assert "set-cookie" not in reply.headers


def test_a_user_without_a_tag_gets_none(shared_management_server: ManagementServer) -> None:
    shared_management_server.add_user("plain")
    body = {"username": "plain", "password": "plain"}
    reply = shared_management_server.post("/session", body, user=None)

    assert (reply.status, reply.json["reason"]) == (401, "Not management user")


@pytest.mark.parametrize("change", ["password", "deletion"])
def test_a_session_ends_when_its_password_is_no_longer_valid(
    change: str, shared_management_server: ManagementServer
) -> None:
    server = shared_management_server
    server.add_user(change, "management")
    begun = server.post("/session", {"username": change, "password": change}, user=None)
    cookie = {"Cookie": cookie_of(begun)}
    assert server.get("/api/overview", user=None, headers=cookie).status == 200

    if change == "password":
        algorithm = "rabbit_password_hashing_sha256"
        hashed = server.ask("passwords.hash", password="new", algorithm=algorithm)
        server.ask("users.change_password", name=change, **hashed)
    else:
        server.ask("users.delete", name=change)

    assert server.get("/api/overview", user=None, headers=cookie).status == 401


def test_a_new_tag_counts_at_once(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    server.add_user("rises", "management")
    begun = server.post("/session", {"username": "rises", "password": "rises"}, user=None)
    cookie = {"Cookie": cookie_of(begun)}
    assert server.get("/api/nodes", user=None, headers=cookie).status == 401

    server.ask("users.set_tags", name="rises", tags=["monitoring"])

    assert server.get("/api/nodes", user=None, headers=cookie).status == 200


def test_sessions_end_when_they_are_idle() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    begun = sessions.begin("a", "a", "b")

    now = IDLE_SECONDS_MAX
    assert sessions.find(begun.token) is begun
    now += IDLE_SECONDS_MAX + 1
    assert sessions.find(begun.token) is None


def test_the_session_that_was_idle_longest_makes_room() -> None:
    sessions = Sessions(lambda: 0.0)
    begun = [sessions.begin(f"u{n}", f"u{n}", "x") for n in range(SESSIONS_MAX)]
    sessions.find(begun[0].token)

    sessions.begin("one more", "one more", "x")

    assert sessions.find(begun[1].token) is None
    assert sessions.find(begun[0].token) is begun[0]
    assert sessions.find(begun[2].token) is begun[2]


def test_a_user_with_many_sessions_ends_those_of_no_other() -> None:
    sessions = Sessions(lambda: 0.0)
    other = sessions.begin("admin", "admin", "x")
    # By tokens, which name nobody.
    begun = [sessions.begin("u", "", f"token{n}") for n in range(SESSIONS_MAX + 5)]

    assert sessions.find(other.token) is other
    kept = [each for each in begun if sessions.find(each.token)]
    assert kept == begun[-SESSIONS_PER_USER_MAX:]
    for n in range(SESSIONS_MAX):
        sessions.begin(f"u{n % 20}", "", "x")
    assert sessions.find(other.token) is other
    for each in kept:
        sessions.end(each.token)
    assert sessions.find(other.token) is other


def test_a_session_is_bounded_with_those_of_its_user(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    server.add_user("many", "management")
    admin = {"Cookie": cookie_of(server.post("/session", GUEST, user=None))}
    body = {"username": "many", "password": "many"}
    cookies = [
        {"Cookie": cookie_of(server.post("/session", body, user=None))}
        for _ in range(SESSIONS_PER_USER_MAX + 1)
    ]

    assert server.get("/session", user=None, headers=cookies[0]).status == 401
    assert server.get("/session", user=None, headers=cookies[1]).status == 200
    assert server.get("/session", user=None, headers=admin).status == 200


def test_a_session_does_not_come_back_when_its_password_does(
    shared_management_server: ManagementServer,
) -> None:
    """It ended with the first request that was refused."""
    server = shared_management_server
    server.add_user("comes", "management")
    body = {"username": "comes", "password": "comes"}
    cookie = {"Cookie": cookie_of(server.post("/session", body, user=None))}
    server.ask("users.delete", name="comes")
    assert server.get("/api/overview", user=None, headers=cookie).status == 401

    server.add_user("comes", "management")

    assert server.get("/api/overview", user=None, headers=cookie).status == 401


def test_a_session_survives_a_broker_that_refuses_for_another_reason(
    shared_management_server: ManagementServer,
) -> None:
    """A user who may not see something is still logged in."""
    server = shared_management_server
    server.add_user("stays", "management")
    body = {"username": "stays", "password": "stays"}
    cookie = {"Cookie": cookie_of(server.post("/session", body, user=None))}
    assert server.get("/api/users", user=None, headers=cookie).status == 401

    assert server.get("/session", user=None, headers=cookie).status == 200
