"""Moves in the background, their list, and what delayed exchanges keep, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementServer
from tests.management.events.event_source import EventSource

HOSTILE = 'a/b?c#d%2F "é" <b>'


@pytest.fixture
def server(shared_management_server: ManagementServer) -> ManagementServer:
    return shared_management_server


@pytest.fixture
def client(server: ManagementServer) -> Iterator[AmqpClient]:
    with connect(("127.0.0.1", server.amqp_port)) as connected:
        connected.open_channel(confirms=True)
        yield connected


def path(kind: str, name: str, rest: str = "") -> str:
    return f"/api/{kind}/%2F/{quote(name, safe='')}{rest}"


def fill(client: AmqpClient, queue: str, count: int) -> None:
    client.declare(queue)
    for number in range(count):
        client.publish(b"%d" % number, queue, properties=Basic.Properties(delivery_mode=2))
        client.expect(Basic.Ack)


def until_ended(server: ManagementServer, number: int, queue: str) -> dict[str, Any]:
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        rows = server.get(f"/api/transfers?queue={quote(queue, safe='')}").json["items"]
        row: dict[str, Any] = next(each for each in rows if each["id"] == number)
        if row["state"] not in {"waiting", "running"}:
            return row
    raise AssertionError("the transfer does not end")


def test_a_move_goes_on_in_the_background(server: ManagementServer, client: AmqpClient) -> None:
    fill(client, HOSTILE, 5)
    client.declare("moved")
    begun = server.post(path("queues", HOSTILE, "/move"), {"to": "moved", "background": True})
    assert begun.status == 202
    ended = until_ended(server, begun.json["transfer"], HOSTILE)
    assert (ended["state"], ended["progress"]["moved"]) == ("done", 5)
    assert (ended["queue"], ended["to"], ended["user"]) == (HOSTILE, "moved", "guest")
    assert client.ready_count("moved") == 5
    assert server.delete(f"/api/transfers/{begun.json['transfer']}").status == 404
    assert server.delete("/api/transfers/x").status == 400


def test_a_move_answers_when_it_is_done(server: ManagementServer, client: AmqpClient) -> None:
    fill(client, "move.a", 3)
    client.declare("move.b")
    where = path("queues", "move.a", "/move")
    assert server.post(where, {"to": "move.b", "dry_run": "true"}).json["moved"] == 3
    assert server.post(where, {"to": "move.b", "limit": "1"}).json["moved"] == 1
    with EventSource(server.url, where, method="POST", body={"to": "move.b"}) as source:
        *_, last = source.events()
    assert (last.name, last.data["moved"]) == ("done", 2)
    for body in ({}, {"to": "none"}, {"to": "move.a"}, {"to": 5}, {"to": "move.b", "limit": "x"}):
        assert server.post(where, body).status in {400, 404}, body


def test_delayed_messages_are_shown_and_cancelled(
    server: ManagementServer, client: AmqpClient
) -> None:
    arguments = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    assert server.put(path("exchanges", HOSTILE), {**arguments, "durable": True}).status == 201
    for number, seconds in enumerate((7200, 3600, 10_800)):
        message = {
            "routing_key": "k",
            "properties": {"headers": {"x-delay": seconds * 1000}, "delivery_mode": 2},
            "payload": f"<b>{number}",
            "payload_encoding": "string",
        }
        assert server.post(path("exchanges", HOSTILE, "/publish"), message).status == 200
    found = server.get(path("exchanges", HOSTILE, "/delayed?limit=2")).json
    assert found["messages"] == 3
    assert [(row["offset"], row["body"]) for row in found["items"]] == [(1, "<b>1"), (0, "<b>0")]
    assert found["next_at_ms"] == found["items"][0]["delivered_at_ms"] > found["now_ms"]
    one = path("exchanges", HOSTILE, "/delayed/1")
    assert server.delete(one).json == {"messages": 1}
    assert server.delete(one).status == 404
    assert server.delete(path("exchanges", HOSTILE, "/delayed")).json == {"messages": 2}
    assert server.get(path("exchanges", HOSTILE, "/delayed")).json["items"] == []
    other = server.get(path("exchanges", "amq.topic", "/delayed"))
    assert (other.status, "delays no messages" in other.json["reason"]) == (400, True)
    assert server.get(path("exchanges", "none", "/delayed")).status == 404


def test_who_may_not_read_sees_and_moves_nothing(
    server: ManagementServer, client: AmqpClient
) -> None:
    fill(client, "closed", 1)
    client.declare("open")
    assert server.put("/api/users/mover", {"password": "mover", "tags": "management"}).status == 201
    rights = {"configure": "", "write": "", "read": "open"}
    assert server.put("/api/permissions/%2F/mover", rights).status == 201
    move = server.post(path("queues", "closed", "/move"), {"to": "open"}, user="mover")
    assert (move.status, move.json["reason"]) == (401, "Access refused.")
    delayed = server.get(path("exchanges", "amq.topic", "/delayed"), user="mover")
    assert (delayed.status, delayed.json["reason"]) == (401, "Access refused.")
    server.put("/api/vhosts/other")
    server.delete("/api/permissions/%2F/mover")
    server.put("/api/permissions/other/mover", rights)
    assert server.get("/api/transfers", user="mover").json == {"items": [], "total": 0}


def test_a_group_of_a_stream_is_moved(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("moved.stream", arguments={"x-queue-type": "stream"})
    for number in range(5):
        client.publish(b"%d" % number, "moved.stream")
        client.expect(Basic.Ack)
    where = path("queues", "moved.stream", "/groups/" + quote(HOSTILE, safe=""))
    row = server.put(where, {"to": "3"})
    assert (row.status, row.json["committed"], row.json["group"]) == (200, 3, HOSTILE)
    assert server.put(where, {"to": "earliest"}).json["committed_before"] == 3
    for body in ({}, {"to": "nowhere"}, {"to": "9"}):
        assert server.put(where, body).status == 400, body
    assert server.put(path("queues", "none", "/groups/g"), {"to": "0"}).status == 404
    assert (
        server.put("/api/users/seeker", {"password": "seeker", "tags": "management"}).status == 201
    )
    rights = {"configure": ".*", "write": ".*", "read": "other"}
    assert server.put("/api/permissions/%2F/seeker", rights).status == 201
    assert server.put(where, {"to": "0"}, user="seeker").status == 401
