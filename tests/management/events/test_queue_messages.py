"""The messages of a queue over HTTP: browse, replay, return, unacked, groups, pause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from pamqp.commands import Basic

from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, connect
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


def path(queue: str, rest: str = "", vhost: str = "/") -> str:
    return f"/api/queues/{quote(vhost, safe='')}/{quote(queue, safe='')}{rest}"


def publish(client: AmqpClient, queue: str, *bodies: str, headers: Any = None) -> None:  # noqa: ANN401
    for body in bodies:
        properties = Basic.Properties(headers=headers, delivery_mode=2)
        client.publish(body.encode(), queue, properties=properties)
        client.expect(Basic.Ack)


def test_messages_are_browsed_by_pages(server: ManagementServer, client: AmqpClient) -> None:
    client.declare(HOSTILE)
    publish(client, HOSTILE, "0", "1", "<script>", headers={"k": "<i>"})
    first = server.get(path(HOSTILE, "/messages?limit=2"))
    assert first.status == 200
    page = first.json
    assert [(row["offset"], row["body"], row["state"]) for row in page["items"]] == [
        (0, "0", "ready"),
        (1, "1", "ready"),
    ]
    second = server.get(path(HOSTILE, f"/messages?from={page['next']}")).json
    assert [row["body"] for row in second["items"]] == ["<script>"]
    assert second["items"][0]["properties"]["headers"] == {"k": "<i>"}
    assert second["next"] is None


def test_messages_are_chosen_by_header_body_and_state(
    server: ManagementServer, client: AmqpClient
) -> None:
    client.declare("chosen")
    publish(client, "chosen", "chair", "table", headers={"a": "1", "b": "x=y&z"})
    publish(client, "chosen", "chair", headers={"a": "2"})
    assert client.get("chosen", no_ack=False) is not None

    def offsets(query: str) -> list[int]:
        reply = server.get(path("chosen", f"/messages?{query}"))
        assert reply.status == 200, reply.body
        return [row["offset"] for row in reply.json["items"]]

    assert offsets("filter=a%3D1&filter=b%3Dx%3Dy%26z") == [0, 1]
    assert offsets("search=chair") == [0, 2]
    assert offsets("search=chair&filter=a%3D2") == [2]
    assert offsets("state=unacked") == [0]
    assert offsets("from=-1") == [2]
    assert offsets("from=0&until=1") == [0]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("from=nowhere", "start"),
        ("limit=0", "limit is 0"),
        ("limit=x", "not_integer"),
        ("filter=x", "is not a filter"),
        ("state=gone", "state is 'gone'"),
    ],
)
def test_wrong_questions_are_refused(
    server: ManagementServer, client: AmqpClient, query: str, reason: str
) -> None:
    client.declare("asked")
    reply = server.get(path("asked", f"/messages?{query}"))
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert reason in str(reply.json["reason"])


def test_what_does_not_exist_is_not_found(server: ManagementServer) -> None:
    for rest in ("/messages", "/unacked", "/groups"):
        assert server.get(path("none", rest)).status == 404
    assert server.put(path("none", "/pause")).status == 404
    assert server.post(path("none", "/replay")).status == 404
    assert server.get(path("none", "/messages", vhost="none")).status == 404


def test_settled_messages_are_replayed(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("replayed", arguments={"x-retain-for": 3_600_000})
    publish(client, "replayed", "0", "1")
    for _ in range(2):
        assert client.get("replayed") is not None
    counted = server.post(path("replayed", "/replay"), {"dry_run": True})
    assert (counted.status, counted.json["replayed"]) == (200, 2)
    assert client.ready_count("replayed") == 0
    done = server.post(path("replayed", "/replay"), {"from": "1"})
    assert (done.json["replayed"], done.json["first_offset"]) == (1, 1)
    message = client.get("replayed")
    assert message is not None
    assert message.body == b"1"


def test_a_replay_tells_its_progress(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("told", arguments={"x-retain-for": 3_600_000})
    publish(client, "told", *map(str, range(5)))
    for _ in range(5):
        assert client.get("told") is not None
    with EventSource(server.url, path("told", "/replay"), method="POST", body={}) as source:
        assert source.status == 200
        events = list(source.events())
    assert events[-1].name == "done"
    assert events[-1].data["replayed"] == 5
    assert {event.name for event in events} <= {"progress", "done"}


def test_a_refused_replay_has_a_status_also_with_progress(
    server: ManagementServer, client: AmqpClient
) -> None:
    client.declare("stream", arguments={"x-queue-type": "stream"})
    refused = server.post(path("stream", "/replay"))
    assert (refused.status, refused.json["error"]) == (400, "bad_request")
    assert "is a stream" in refused.json["reason"]
    with EventSource(server.url, path("stream", "/replay"), method="POST", body={}) as source:
        assert source.status == 400


def test_dead_letters_go_back(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("letters")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    client.declare("origin", arguments=arguments)
    publish(client, "origin", "0", "1")
    for _ in range(2):
        message = client.get("origin", no_ack=False)
        assert message is not None
        client.send(Basic.Reject(message.tag, requeue=False))
    while len(server.get(path("letters", "/messages")).json["items"]) < 2:
        pass
    one = server.post(path("letters", "/dead-letters/return"), {"from": "1", "until": "2"})
    assert (one.status, one.json["returned"]) == (200, 1)
    rest = server.post(path("letters", "/dead-letters/return")).json
    assert rest["queues"] == [{"queue": "origin", "returned": 1}]
    assert client.ready_count("origin") == 2


def test_unacked_deliveries_are_listed(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("held")
    publish(client, "held", "0", "1", "2")
    client.consume("held", prefetch=2)
    for _ in range(2):
        client.expect_delivery()
    page = server.get(path("held", "/unacked")).json
    assert (page["unacked"], page["next"]) == (2, None)
    (row,) = page["items"]
    assert (row["delivery_tag"], row["count"], row["first_offset"]) == (1, 2, 0)
    assert row["unacked_for_seconds"] >= 0
    assert row["channel_name"].endswith(" (1)")


def test_groups_are_listed(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("grouped", arguments={"x-queue-type": "stream"})
    publish(client, "grouped", "0")
    target = {"vhost": "/", "queue": "grouped", "shards": "", "group": "<b>"}
    ask(server.storage_path, "offsets.commit", **target, to="earliest", force=False)
    (group,) = server.get(path("grouped", "/groups")).json["items"]
    assert (group["group"], group["lag"]) == ("<b>", 1)


def test_a_paused_queue_shows_it(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("paused")
    assert server.put(path("paused", "/pause")).status == 204
    publish(client, "paused", "0")
    assert client.get("paused") is None
    assert server.get(path("paused")).json["state"] == "paused"
    assert server.put(path("paused", "/resume")).status == 204
    assert server.get(path("paused")).json["state"] == "running"
    assert client.get("paused") is not None


def test_each_needs_the_rights_of_amqp(server: ManagementServer, client: AmqpClient) -> None:
    client.declare("guarded")
    publish(client, "guarded", "0")
    server.add_user("reader", "management")
    rights = {"vhost": "/", "user": "reader"}
    ask(server.storage_path, "permissions.set", **rights, configure="", write="", read="guarded")
    assert server.get(path("guarded", "/messages"), user="reader").status == 200
    assert server.get(path("guarded", "/unacked"), user="reader").status == 200
    for refused in (
        server.put(path("guarded", "/pause"), user="reader"),
        server.post(path("guarded", "/replay"), user="reader"),
        server.post(path("guarded", "/dead-letters/return"), user="reader"),
    ):
        assert (refused.status, refused.json["reason"]) == (401, "Access refused.")
    ask(server.storage_path, "permissions.set", **rights, configure="", write=".*", read="")
    assert server.get(path("guarded", "/messages"), user="reader").status == 401
    server.add_user("nobody")
    assert server.get(path("guarded", "/messages"), user="nobody").status == 401
