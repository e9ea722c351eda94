"""Arguments of consumers: what each may be, with RabbitMQ's words for what it may not."""

from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


def refusal(client: AmqpClient, arguments: dict[str, Any], *, exclusive: bool = False) -> str:
    """Return the text that a consume is refused with, without the code's name."""
    client.send(Basic.Consume(queue="q", arguments=arguments, exclusive=exclusive))
    close = client.expect_channel_close(406)
    assert (close.class_id, close.method_id) == (60, 20)
    return close.reply_text.removeprefix("PRECONDITION_FAILED - ")


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        ("5", "longstr"),
        (True, "bool"),
        (1.5, "float"),
        (None, "void"),
        ([1], "array"),
        ({"a": 1}, "table"),
    ],
)
def test_a_priority_that_is_no_integer_is_refused(
    server: RunningServer, kind: str, value: object, type_name: str
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-queue-type": kind})
        assert refusal(client, {"x-priority": value}) == (
            "invalid arg 'x-priority' for queue 'q' in vhost '/': "
            f'"expected integer, got {type_name}"'
        )


def test_an_argument_of_another_kind_of_queue_is_refused(server: RunningServer) -> None:
    with connect(server.address) as client:
        for kind, name in [
            ("classic", "x-stream-offset"),
            ("quorum", "x-stream-offset"),
        ]:
            client.open_channel()
            client.declare("q", arguments={"x-queue-type": kind})
            assert refusal(client, {name: True}) == (
                f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue"
            )
            client.open_channel(2)
            client.call(Queue.Delete(queue="q"), Queue.DeleteOk, 2)
            client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 2)


def test_what_is_wrong_with_an_argument_is_told_before_that_the_queue_is_taken(
    server: RunningServer,
) -> None:
    with connect(server.address) as client, connect(server.address) as owner:
        client.open_channel()
        owner.open_channel()
        owner.declare("q")
        owner.call(Basic.Consume(queue="q", exclusive=True), Basic.ConsumeOk)
        assert refusal(client, {"x-priority": "high"}, exclusive=True).startswith("invalid arg ")


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-priority": -(2**40)},
        {"x-cancel-on-ha-failover": True},
        {"x-cancel-on-ha-failover": "yes"},
        {"x-of-mine": "1", "another": [1]},
    ],
)
def test_what_rabbitmq_takes_is_taken(server: RunningServer, arguments: dict[str, Any]) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.call(Basic.Consume(queue="q", arguments=arguments, no_local=True), Basic.ConsumeOk)
        client.publish(b"from the same connection", "q")
        assert client.expect_delivery().body == b"from the same connection"
