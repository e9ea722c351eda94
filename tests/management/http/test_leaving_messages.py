"""Dead letters that no queue takes are counted apart: no consumer holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, Message, connect
from tests.conformance.polling import eventually
from tests.management.conftest import ManagementServer

LIMBO: Any = {
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "not-there-yet",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


def take(client: AmqpClient) -> int:
    message = client.get("orders", no_ack=False)
    assert isinstance(message, Message)
    assert isinstance(message.method, Basic.GetOk)
    assert message.method.delivery_tag is not None
    return message.method.delivery_tag


@pytest.fixture
def server(management_server: ManagementServer) -> ManagementServer:
    return management_server


@pytest.fixture
def client(server: ManagementServer) -> Iterator[AmqpClient]:
    """Open a connection, with a queue of three messages: one ready, one unacked, one dead."""
    with connect(("127.0.0.1", server.amqp_port)) as client:
        client.open_channel(confirms=True)
        client.declare("orders", arguments=LIMBO)
        for number in range(3):
            client.publish(b"%d" % number, "orders")
            client.expect_confirmed()
        client.send(Basic.Nack(take(client), requeue=False))
        take(client)
        yield client


def counts(server: ManagementServer) -> tuple[int, int, int]:
    """Return how many messages are ready, unacked and leaving."""
    found = ask(server.storage_path, "queues.stats", vhost="/", queue="orders", after="", limit=1)
    row = found["queues"][0]
    return row["ready"], row["unacked"], row["leaving"]


def test_a_dead_letter_without_a_route_is_not_unacked(
    server: ManagementServer, client: AmqpClient
) -> None:
    assert counts(server) == (1, 1, 1)
    # It goes when somebody takes it.
    client.declare("dead")
    exchange = Exchange.Declare(exchange="not-there-yet", exchange_type="fanout")
    client.call(exchange, Exchange.DeclareOk)
    client.call(Queue.Bind(queue="dead", exchange="not-there-yet"), Queue.BindOk)
    assert eventually(lambda: counts(server) == (1, 1, 0))
    assert client.ready_count("dead") == 1


@pytest.mark.usefixtures("client")
def test_the_api_shows_it_as_rabbitmq_does(server: ManagementServer) -> None:
    queue = server.get("/api/queues/%2F/orders?disable_stats=false").json
    shown = {name: queue[f"messages{name}"] for name in ("", "_ready", "_unacknowledged", "_dlx")}
    # RabbitMQ 3.10 counts the same ones.
    assert shown == {"": 3, "_ready": 1, "_unacknowledged": 1, "_dlx": 1}
    assert queue["message_bytes"] >= queue["message_bytes_dlx"] > 0
    totals = server.get("/api/overview").json["queue_totals"]
    assert [totals[f"messages{name}"] for name in ("", "_ready", "_unacknowledged")] == [3, 1, 1]
    vhost = server.get("/api/vhosts/%2F").json
    assert (vhost["messages"], vhost["messages_unacknowledged"]) == (3, 1)
