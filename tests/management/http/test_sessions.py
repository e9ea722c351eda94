"""The session of the page: a cookie, and a token for what changes something."""

from __future__ import annotations

from http.cookies import SimpleCookie

import pytest

from amqp_server.management.http.sessions import IDLE_SECONDS_MAX, SESSIONS_MAX, Sessions
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
    begun = sessions.begin("a", "b")

    now = IDLE_SECONDS_MAX
    assert sessions.find(begun.token) is begun
    now += IDLE_SECONDS_MAX + 1
    assert sessions.find(begun.token) is None


def test_the_session_that_was_idle_longest_makes_room() -> None:
    sessions = Sessions(lambda: 0.0)
    first, second = sessions.begin("a", "a"), sessions.begin("b", "b")
    sessions.find(first.token)
    for _ in range(SESSIONS_MAX - 1):
        sessions.begin("c", "c")

    assert sessions.find(second.token) is None
    assert sessions.find(first.token) is first
