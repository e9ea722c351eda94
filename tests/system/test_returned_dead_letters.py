"""Dead letters go back to the queues that they came from, one or all, marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer

DEAD = "dead letters"


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        connected.call(Exchange.Declare(exchange="orders"), Exchange.DeclareOk)
        connected.declare(DEAD)
        for name in ("a", "b"):
            letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
            connected.declare(name, arguments=letters)
            bind = Queue.Bind(queue=name, exchange="orders", routing_key=f"new.{name}")
            connected.call(bind, Queue.BindOk)
        yield connected


def reject(client: AmqpClient, queue: str, *bodies: bytes, headers: Any = None) -> None:  # noqa: ANN401
    """Let messages of a queue become dead letters."""
    for body in bodies:
        properties = Basic.Properties(headers=headers, delivery_mode=2)
        client.publish(body, f"new.{queue}", "orders", properties=properties)
        client.expect(Basic.Ack)
        message = client.get(queue, no_ack=False)
        assert message is not None
        client.send(Basic.Reject(message.tag, requeue=False))


def until_dead(server: RunningServer, count: int) -> None:
    """Return when so many dead letters are on the disk, where commands see them."""
    while len(browse(server)) < count:
        pass


def browse(server: RunningServer, state: str = "", **options: object) -> list[dict[str, Any]]:
    page = {
        "vhost": "/",
        "queue": DEAD,
        "start": "first",
        "until": "",
        "state": state,
        "filters": [],
        "limit": 100,
        "body_bytes": -1,
    }
    return list(ask(server.storage_path, "queues.browse", **{**page, **options})["messages"])


def give_back(server: RunningServer, **options: object) -> dict[str, Any]:
    wanted = {
        "vhost": "/",
        "queue": DEAD,
        "start": "first",
        "until": "",
        "filters": [],
        "dry_run": False,
    }
    command = "queues.return_dead_letters"
    return dict(ask(server.storage_path, command, **{**wanted, **options}))


def taken(client: AmqpClient, queue: str) -> list[Message]:
    found = []
    while (message := client.get(queue)) is not None:
        found.append(message)
    return found


def test_all_go_back_to_their_own_queues_marked(server: RunningServer, client: AmqpClient) -> None:
    reject(client, "a", b"a1", b"a2", headers={"kind": "x"})
    reject(client, "b", b"b1")
    reject(client, "a", b"a3")
    until_dead(server, 4)
    done = give_back(server)
    assert (done["returned"], done["left"], done["next"]) == (4, {}, 4)
    assert done["queues"] == [{"queue": "a", "returned": 3}, {"queue": "b", "returned": 1}]
    assert client.ready_count(DEAD) == 0
    letters = taken(client, "a")
    assert [letter.body for letter in letters] == [b"a1", b"a2", b"a3"]
    first = letters[0]
    assert isinstance(first.method, Basic.GetOk)
    assert (first.method.exchange, first.method.routing_key) == ("orders", "new.a")
    headers: Any = first.properties.headers
    assert headers["kind"] == "x"
    assert headers["x-returned-from"] == DEAD
    assert headers["x-returned-offset"] == 0
    assert headers["x-death"][0]["queue"] == "a"
    assert [letter.body for letter in taken(client, "b")] == [b"b1"]
    assert {row["state"] for row in browse(server)} == {"settled"}


def test_one_goes_back_and_the_others_stay_in_order(
    server: RunningServer, client: AmqpClient
) -> None:
    reject(client, "a", b"0", b"1", b"2")
    until_dead(server, 3)
    assert give_back(server, start="1", until="2")["returned"] == 1
    assert [letter.body for letter in taken(client, "a")] == [b"1"]
    assert [letter.body for letter in taken(client, DEAD)] == [b"0", b"2"]


def test_filters_choose_and_a_dry_run_changes_nothing(
    server: RunningServer, client: AmqpClient
) -> None:
    reject(client, "a", b"0", headers={"customer": 7})
    reject(client, "a", b"1", headers={"customer": 8})
    until_dead(server, 2)
    chosen = {"filters": ["customer=8"]}
    assert give_back(server, dry_run=True, **chosen)["returned"] == 1
    assert client.ready_count(DEAD) == 2
    assert give_back(server, **chosen)["returned"] == 1
    assert [letter.body for letter in taken(client, "a")] == [b"1"]
    assert client.ready_count(DEAD) == 1


def test_what_cannot_go_back_stays_and_is_counted(
    server: RunningServer, client: AmqpClient
) -> None:
    reject(client, "a", b"0")
    reject(client, "b", b"1")
    until_dead(server, 2)
    client.publish(b"no letter", DEAD)
    client.expect(Basic.Ack)
    strange: Any = {"x-death": [1, {"queue": 5}, {"count": 1}], "x-first-death-queue": "a"}
    properties = Basic.Properties(headers=strange, delivery_mode=2)
    client.publish(b"strange", DEAD, properties=properties)
    client.expect(Basic.Ack)
    client.call(Queue.Delete(queue="b"), Queue.DeleteOk)
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    client.call(Queue.Delete(queue="a"), Queue.DeleteOk)
    client.declare("a", arguments=full)
    done = give_back(server)
    assert done["returned"] == 0
    assert done["left"] == {"no_queue": 1, "no_death": 2, "refused": 1}
    left = [letter.body for letter in taken(client, DEAD)]
    assert left == [b"0", b"1", b"no letter", b"strange"]


def test_what_a_consumer_holds_stays_with_it(server: RunningServer, client: AmqpClient) -> None:
    reject(client, "a", b"0", b"1")
    until_dead(server, 2)
    held = client.get(DEAD, no_ack=False)
    assert held is not None
    assert give_back(server)["returned"] == 1
    assert [letter.body for letter in taken(client, "a")] == [b"1"]
    client.send(Basic.Ack(held.tag))
    assert client.ready_count(DEAD) == 0


def test_they_are_there_after_a_kill(server: RunningServer, client: AmqpClient) -> None:
    reject(client, "a", *(str(number).encode() for number in range(20)))
    until_dead(server, 20)
    assert give_back(server)["returned"] == 20
    server.kill()
    server.start()
    with connect(server.address) as again:
        again.open_channel()
        bodies = {int(letter.body) for letter in taken(again, "a")}
    assert bodies == set(range(20))


def test_a_stream_returns_nothing(server: RunningServer, client: AmqpClient) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    with pytest.raises(ControlError, match="queue 's' is a stream, which keeps all it has"):
        give_back(server, queue="s")


def test_bodies_are_searched(server: RunningServer, client: AmqpClient) -> None:
    for body in ("one chair", "two chäirs", "a table", "x" * 3000 + "chair"):
        client.publish(body.encode(), DEAD)
        client.expect(Basic.Ack)
    until_dead(server, 4)
    found = browse(server, search="chair", body_bytes=3)
    assert [row["offset"] for row in found] == [0, 3]
    assert [row["offset"] for row in browse(server, search="chä", state="ready")] == [1]
    assert browse(server, search=DEAD) == []
