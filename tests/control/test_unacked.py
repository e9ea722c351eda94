"""`queues.unacked` and `queues.groups`: who has which messages for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic

from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        yield connected


def publish(client: AmqpClient, queue: str, count: int) -> None:
    for number in range(count):
        client.publish(str(number).encode(), queue)
        client.expect(Basic.Ack)


def unacked(server: RunningServer, queue: str, **page: object) -> dict[str, Any]:
    return dict(ask(server.storage_path, "queues.unacked", vhost="/", queue=queue, **page))


def test_each_holder_is_named_with_its_offsets(server: RunningServer, client: AmqpClient) -> None:
    client.declare("q")
    client.declare("other")
    publish(client, "q", 5)
    publish(client, "other", 1)
    with connect(server.address) as consumer:
        consumer.open_channel()
        consumer.open_channel(2)
        consumer.consume("q", prefetch=3)
        tags = [consumer.expect_delivery().tag for _ in range(3)]
        assert client.get("q", no_ack=False) is not None
        assert client.get("other", no_ack=False) is not None
        consumer.send(Basic.Ack(tags[1]))
        consumer.expect_delivery()
        found = unacked(server, "q")
        name = "{}:{} -> {}:{}".format(
            *consumer.socket.getsockname(), *consumer.socket.getpeername()
        )
        rows = [row for row in found["rows"] if row["channel_name"] == f"{name} (1)"]
        got = [row for row in found["rows"] if row not in rows]
    assert found["unacked"] == 4
    assert found["next"] == ""
    assert [(row["first_offset"], row["end_offset"], row["count"]) for row in rows] == [
        (0, 1, 1),
        (2, 3, 1),
        (4, 5, 1),
    ]
    assert {row["consumer_tag"] for row in rows} == {rows[0]["consumer_tag"]} != {""}
    assert [(row["consumer_tag"], row["first_offset"], row["count"]) for row in got] == [("", 3, 1)]
    assert all(row["unacked_for_seconds"] >= 0 for row in found["rows"])
    assert {row["user"] for row in found["rows"]} == {"guest"}


def test_pages_have_every_delivery_once(server: RunningServer, client: AmqpClient) -> None:
    client.declare("q")
    publish(client, "q", 30)
    for number in range(2, 7):
        client.open_channel(number)
        client.consume("q", prefetch=6, channel=number)
        for _ in range(6):
            client.expect_delivery(number)
    # Each second one is left: every run has one message.
    for number in range(2, 7):
        for tag in (1, 3, 5):
            client.send(Basic.Nack(tag, requeue=False), number)
    client.ready_count("q")
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        page = unacked(server, "q", after=after, limit=4)
        assert len(page["rows"]) <= 4
        rows += page["rows"]
        after = page["next"]
        if not after:
            break
    assert sorted(row["first_offset"] for row in rows) == list(range(1, 30, 2))
    assert len(rows) == 15


def test_consumers_of_streams_and_members_of_groups_are_shown(
    server: RunningServer, client: AmqpClient
) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    publish(client, "s", 3)
    arguments = {"x-stream-offset": "first", "x-consumer-group": "g"}
    client.consume("s", prefetch=2, arguments=arguments)
    for _ in range(2):
        client.expect_delivery()
    (row,) = unacked(server, "s")["rows"]
    assert (row["first_offset"], row["count"]) == (0, 2)
    place = {"vhost": "/", "queue": "s"}
    (group,) = ask(server.storage_path, "queues.groups", **place)["groups"]
    assert (group["group"], group["unacked"], group["members"], group["lag"]) == ("g", 2, 1, 3)


def test_groups_come_in_pages_by_name(server: RunningServer, client: AmqpClient) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    client.declare("q")
    publish(client, "s", 1)
    for name in ("b", "a", "c"):
        target = {"vhost": "/", "queue": "s", "shards": "", "group": name}
        ask(server.storage_path, "offsets.commit", **target, to="earliest", force=False)
    ours = {"vhost": "/", "queue": "s", "limit": 2}
    first = ask(server.storage_path, "queues.groups", **ours)
    second = ask(server.storage_path, "queues.groups", **ours, after=first["next"])
    assert [row["group"] for row in first["groups"]] == ["a", "b"]
    assert ([row["group"] for row in second["groups"]], second["next"]) == (["c"], "")
    none = ask(server.storage_path, "queues.groups", vhost="/", queue="q")
    assert none == {"groups": [], "next": ""}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ({"limit": 0}, "limit is 0, must be 1 to 1000"),
        ({"limit": 1001}, "limit is 1001, must be 1 to 1000"),
        ({"after": "1.2"}, "'after' is not what an answer gave as 'next'"),
        ({"after": "a.b.zz"}, "'after' is not what an answer gave as 'next'"),
    ],
)
def test_wrong_pages_are_refused(
    server: RunningServer, client: AmqpClient, page: dict[str, object], reason: str
) -> None:
    client.declare("q")
    with pytest.raises(ControlError, match=reason):
        unacked(server, "q", **page)
