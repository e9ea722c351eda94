"""The log warns once when a queue loses messages to its delivery limit."""

from typing import Any

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}


def return_too_often(client: AmqpClient, queue: str, times: int) -> None:
    """Publish a message and requeue it until it is gone."""
    client.publish(b"poison", queue)
    for _ in range(times):
        message = client.get(queue, no_ack=False)
        assert message is not None
        client.send(Basic.Reject(message.tag, requeue=True))
    assert client.get(queue) is None


def warnings_of(server: RunningServer, queue: str) -> list[str]:
    return [
        line
        for line in server.messages
        if "messages dropped" in line and f"queue={queue!r}" in line
    ]


def test_the_log_warns_once_when_a_queue_loses_messages_to_its_delivery_limit(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("default", arguments=QUORUM)
        client.declare("two", arguments=QUORUM | {"x-delivery-limit": 2})
        return_too_often(client, "default", 21)
        for _ in range(2):
            return_too_often(client, "two", 3)
    server.terminate()
    for queue, limit in (("default", 20), ("two", 2)):
        (line,) = warnings_of(server, queue)
        assert "level=warning" in line
        assert f"x-delivery-limit={limit}" in line
        assert "x-dead-letter-exchange" in line


@pytest.mark.parametrize("arguments", [{"x-dead-letter-exchange": ""}, {"x-delivery-limit": -1}])
def test_the_log_does_not_warn_while_a_queue_loses_no_message(
    server: RunningServer, arguments: dict[str, Any]
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=QUORUM | {"x-delivery-limit": 1} | arguments)
        client.publish(b"x", "q")
        for _ in range(2):
            message = client.get("q", no_ack=False)
            assert message is not None
            client.send(Basic.Reject(message.tag, requeue=True))
        client.get("q", no_ack=False)
    server.terminate()
    assert warnings_of(server, "q") == []
