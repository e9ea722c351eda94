"""A dead letter that comes again to the queues that it was in before is no cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pamqp.commands import Basic

from amqp_server.control.client import ask
from amqp_server.control.queue_client import QueueClient
from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer

AT_LEAST_ONCE = {
    "x-queue-type": "quorum",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(params=[{}, AT_LEAST_ONCE], ids=["classic", "at-least-once"])
def client(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[AmqpClient]:
    """A client; messages of `a` go to `b` by their time, and from there to `end`."""
    with connect(server.address) as connected:
        connected.open_channel()
        connected.declare("end", arguments={"x-retain-for": 3_600_000})
        for queue, target in (("b", "end"), ("a", "b")):
            arguments: dict[str, Any] = {
                **request.param,
                "x-message-ttl": 1,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": target,
            }
            connected.declare(queue, arguments=arguments)
        yield connected


def arrived(client: AmqpClient) -> Message:
    """Return the dead letter at its end, which stays there unacked until the channel closes."""
    client.consume("end")
    message = client.expect_delivery()
    assert isinstance(message.method, Basic.Deliver)
    client.call(Basic.Cancel(consumer_tag=message.method.consumer_tag), Basic.CancelOk)
    return message


def deaths(message: Message) -> list[tuple[str, int]]:
    headers: Any = message.properties.headers
    return [(each["queue"], each["count"]) for each in headers["x-death"]]


def by_its_client(server: RunningServer, client: AmqpClient, message: Message) -> None:
    client.send(Basic.Ack(message.tag))
    client.publish(message.body, "a", properties=message.properties)


def by_a_move(server: RunningServer, client: AmqpClient, message: Message) -> None:
    client.send(Basic.Nack(message.tag, requeue=True))
    while not client.ready_count("end"):
        pass
    moved = ask(server.storage_path, "queues.move", vhost="/", queue="end", to="a")
    assert moved["moved"] == 1


def by_a_return(server: RunningServer, client: AmqpClient, message: Message) -> None:
    client.send(Basic.Nack(message.tag, requeue=True))
    while not client.ready_count("end"):
        pass
    # To `b`, where it was last.
    wanted = {"start": "first", "until": "", "filters": [], "dry_run": False}
    returned = ask(
        server.storage_path, "queues.return_dead_letters", vhost="/", queue="end", **wanted
    )
    assert returned["returned"] == 1


def by_a_replay(server: RunningServer, client: AmqpClient, message: Message) -> None:
    client.send(Basic.Ack(message.tag))
    while QueueClient(server.storage_path).replay("end", start="first", to="a")["replayed"] == 0:
        pass


@pytest.mark.parametrize("again", [by_its_client, by_a_move, by_a_return, by_a_replay])
def test_it_comes_to_its_end_again(
    server: RunningServer,
    client: AmqpClient,
    again: Callable[[RunningServer, AmqpClient, Message], None],
) -> None:
    client.publish(b"x", "a", properties=Basic.Properties(delivery_mode=2))
    first = arrived(client)
    assert deaths(first) == [("b", 1), ("a", 1)]
    again(server, client, first)
    second = arrived(client)
    assert second.body == b"x"
    assert deaths(second) == [("b", 2), ("a", 1 if again is by_a_return else 2)]
