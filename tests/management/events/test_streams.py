"""`/api/events`, `/api/livelog` and `/api/audit`: what happens, and what has happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from amqp_server.control.client import ask
from amqp_server.management.following.feed import CLIENTS_MAX
from tests.amqp_client import AnyDeclare, connect
from tests.management.conftest import ManagementServer
from tests.management.events.event_source import Event, EventSource

FORBIDDEN = AnyDeclare(0, "amq.forbidden", False, True, False, False, False, None)
HOSTILE = "<script>alert(1)</script> \u2028 é"


def add_vhost(server: ManagementServer, name: str) -> None:
    ask(server.storage_path, "vhosts.add", name=name)


def event_of(events: Iterator[Event], object_name: str) -> Event:
    return next(event for event in events if event.data.get("object") == object_name)


@pytest.fixture
def server(shared_management_server: ManagementServer) -> ManagementServer:
    return shared_management_server


def test_events_are_told_as_they_happen(server: ManagementServer) -> None:
    with EventSource(server.url, "/api/events") as source:
        assert source.status == 200
        assert source.response.headers["content-type"] == "text/event-stream"
        assert source.response.headers["cache-control"] == "no-cache"
        source.until_begun()
        add_vhost(server, HOSTILE)
        told = event_of(source.events(), HOSTILE)
    assert (told.name, told.data["event"]) == ("message", "vhost.created")
    assert told.data["user"].startswith("os:")


def test_only_wanted_events_come(server: ManagementServer) -> None:
    path = "/api/events?event=vhost.deleted,queue.*"
    with EventSource(server.url, path) as source:
        source.until_begun()
        add_vhost(server, "short-lived")
        ask(server.storage_path, "vhosts.delete", name="short-lived")
        assert next(source.events()).data["event"] == "vhost.deleted"


def test_a_client_that_comes_again_has_missed_nothing(server: ManagementServer) -> None:
    with EventSource(server.url, "/api/events?event=vhost.*") as source:
        source.until_begun()
        add_vhost(server, "before")
        last = event_of(source.events(), "before")
    with EventSource(server.url, "/api/events") as other:
        other.until_begun()
        add_vhost(server, "between")
        event_of(other.events(), "between")
    headers = {"Last-Event-ID": last.identity}
    with EventSource(server.url, "/api/events?event=vhost.*", headers=headers) as again:
        assert next(again.events()).data["object"] == "between"


def test_the_log_comes_with_earlier_lines(server: ManagementServer) -> None:
    with connect(("127.0.0.1", server.amqp_port)) as client:
        client.open_channel()
        with EventSource(server.url, "/api/livelog?level=info&last=100") as source:
            lines = source.events()
            opened = next(line for line in lines if "connection open" in line.data["message"])
            assert opened.data["level"] == "info"
            client.open_channel(2)
            client.send(FORBIDDEN, 2)
            error = next(line for line in lines if "channel error" in line.data["message"])
            assert error.data["level"] == "warning"
            assert int(error.data["id"]) > int(opened.data["id"])


def test_too_many_clients_are_refused_and_leave_their_places(server: ManagementServer) -> None:
    with ExitStack() as opened:
        for _ in range(CLIENTS_MAX):
            opened.enter_context(EventSource(server.url, "/api/livelog?last=0")).until_begun()
        refused = server.get("/api/livelog")
        assert (refused.status, refused.json["error"]) == (503, "unavailable")
    # The server sees that they are gone when it writes, or looks after them.
    while server.get("/api/whoami").status == 200:
        with EventSource(server.url, "/api/livelog") as source:
            if source.status == 200:
                break


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/api/livelog?level=loud", "level must be one of"),
        ("/api/livelog?last=101", "last is 101, must be 0 to 100"),
        ("/api/events?event=" + ",".join("x" * 33), "more than 32 names of events"),
    ],
)
def test_wrong_questions_are_refused(server: ManagementServer, path: str, reason: str) -> None:
    reply = server.get(path)
    assert reply.status == 400
    assert reason in reply.json["reason"]


def test_the_audit_log_comes_by_pages(server: ManagementServer) -> None:
    for number in range(3):
        add_vhost(server, f"audited-{number}")
    path = "/api/audit?event=vhost.created&limit=2"
    while not any(each["object"] == "audited-2" for each in server.get(path).json["items"]):
        pass
    first = server.get(path).json
    second = server.get(f"{path}&before={first['next']}").json
    names = [each["object"] for each in (*first["items"], *second["items"])]
    assert names[:3] == ["audited-2", "audited-1", "audited-0"]


def test_an_auto_delete_queue_says_why_it_went(server: ManagementServer) -> None:
    with connect(("127.0.0.1", server.amqp_port)) as client:
        client.open_channel()
        client.declare("fleeting", durable=False, auto_delete=True)
        client.consume("fleeting")
    found: list[dict[str, Any]] = []
    while not found:
        items = server.get("/api/audit?event=queue.deleted").json["items"]
        found = [each for each in items if each["object"] == "fleeting"]
    assert found[0]["details"]["reason"] == "auto-delete"


@pytest.mark.parametrize(
    ("tag", "allowed"),
    [
        ("", ()),
        ("management", ()),
        ("policymaker", ()),
        ("monitoring", ("/api/events", "/api/livelog")),
        ("administrator", ("/api/events", "/api/livelog", "/api/audit")),
    ],
)
def test_each_needs_its_tag(server: ManagementServer, tag: str, allowed: tuple[str, ...]) -> None:
    user = f"user-{tag}"
    server.add_user(user, *filter(None, [tag]), vhosts=["/"])
    for path in ("/api/events", "/api/livelog", "/api/audit"):
        with EventSource(server.url, path, user=user, headers={"Accept": "*/*"}) as source:
            assert source.status == (200 if path in allowed else 401), path
