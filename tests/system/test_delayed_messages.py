"""What a delayed exchange keeps: how many messages, which is next, and they can be cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

HOUR_MS = 3_600_000
LATER = "later"


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        arguments: Any = {"x-delayed-type": "direct"}
        declare = Exchange.Declare(
            exchange=LATER, exchange_type="x-delayed-message", durable=True, arguments=arguments
        )
        connected.call(declare, Exchange.DeclareOk)
        connected.declare("q")
        bind = Queue.Bind(queue="q", exchange=LATER, routing_key="k")
        connected.call(bind, Queue.BindOk)
        yield connected


def delay(client: AmqpClient, body: bytes, milliseconds: int) -> None:
    headers: Any = {"x-delay": milliseconds}
    properties = Basic.Properties(headers=headers, delivery_mode=2)
    client.publish(body, "k", LATER, properties=properties)
    client.expect(Basic.Ack)


def delayed(server: RunningServer, **options: object) -> dict[str, Any]:
    wanted = {"vhost": "/", "name": LATER, **options}
    return dict(ask(server.storage_path, "exchanges.delayed", **wanted))


def cancel(server: RunningServer, offset: int) -> int:
    done = ask(
        server.storage_path, "exchanges.cancel_delayed", vhost="/", name=LATER, offset=offset
    )
    return int(done["messages"])


def test_the_soonest_are_shown_first(server: RunningServer, client: AmqpClient) -> None:
    empty = delayed(server)
    assert (empty["messages"], empty["next_at_ms"], empty["rows"]) == (0, 0, [])
    for body, milliseconds in ((b"2", 2 * HOUR_MS), (b"1", HOUR_MS), (b"3", 3 * HOUR_MS)):
        delay(client, body, milliseconds)
    found = delayed(server)
    assert found["messages"] == 3
    assert [row["body"] for row in found["rows"]] == ["1", "2", "3"]
    assert [row["offset"] for row in found["rows"]] == [1, 0, 2]
    assert found["rows"][0]["routing_key"] == "k"
    assert found["next_at_ms"] == found["rows"][0]["delivered_at_ms"]
    # A minute is for a slow machine.
    assert 0 <= found["now_ms"] + HOUR_MS - found["next_at_ms"] < 60_000
    assert [row["body"] for row in delayed(server, limit=1)["rows"]] == ["1"]


def test_one_is_cancelled_for_good(server: RunningServer, client: AmqpClient) -> None:
    delay(client, b"0", HOUR_MS)
    delay(client, b"1", 2 * HOUR_MS)
    assert cancel(server, 0) == 1
    with pytest.raises(ControlError, match="keeps no message 0"):
        cancel(server, 0)
    assert [row["body"] for row in delayed(server)["rows"]] == ["1"]
    server.kill()
    server.restart()
    found = delayed(server)
    assert found["messages"] == 1
    assert [row["body"] for row in found["rows"]] == ["1"]


def test_all_are_cancelled_and_the_exchange_goes_on(
    server: RunningServer, client: AmqpClient
) -> None:
    for _ in range(3):
        delay(client, b"never", HOUR_MS)
    assert cancel(server, -1) == 3
    assert delayed(server)["messages"] == 0
    assert cancel(server, -1) == 0
    delay(client, b"now", 0)
    message = client.get("q")
    assert message is not None
    assert message.body == b"now"


def test_many_with_the_same_deadline_are_all_there(
    server: RunningServer, client: AmqpClient
) -> None:
    for number in range(2000):
        headers: Any = {"x-delay": HOUR_MS + number % 7}
        properties = Basic.Properties(headers=headers, delivery_mode=2)
        client.publish(b"%d" % number, "k", LATER, properties=properties)
    client.expect_confirmed()
    found = delayed(server, limit=1000)
    assert found["messages"] == 2000
    times = [row["delivered_at_ms"] for row in found["rows"]]
    assert len({row["offset"] for row in found["rows"]}) == 1000
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("name", "reason"), [("none", "no exchange 'none'"), ("amq.topic", "delays no messages")]
)
def test_others_keep_nothing(
    server: RunningServer, client: AmqpClient, name: str, reason: str
) -> None:
    assert client.ready_count("q") == 0
    with pytest.raises(ControlError, match=reason):
        delayed(server, name=name)
    with pytest.raises(ControlError, match="limit is 0"):
        delayed(server, limit=0)
