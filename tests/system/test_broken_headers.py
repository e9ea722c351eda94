"""The broker takes a message with malformed headers and does not lose it later."""

from collections.abc import Iterator

import pytest
from pamqp import constants
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect, frame_octets
from tests.conformance.raw_content import HEADERS_FLAG, publish_raw
from tests.servers import RunningServer

OF_UNKNOWN_KIND = b"\0\0\0\x06\x03abcZ\0"


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    """Declare the queue `dead`."""
    with connect(server.address) as client:
        client.open_channel()
        client.declare("dead")
        yield client


def publish_broken_and_sound(client: AmqpClient, queue: str) -> None:
    publish_raw(client, queue, HEADERS_FLAG, OF_UNKNOWN_KIND, b"broken")
    client.publish(b"sound", queue)


def take_two(client: AmqpClient, queue: str) -> None:
    """Leave two messages of a queue unacked, without reading what the first looks like."""
    client.send(Basic.Get(queue=queue))
    octets = b""
    while not octets.endswith(frame_octets(constants.FRAME_BODY, 1, b"broken")):
        octets += client.receive_raw()
    assert client.get(queue, no_ack=False) is not None


def bodies(client: AmqpClient, queue: str) -> list[bytes]:
    while client.ready_count(queue) < 2:
        pass
    messages = [client.get(queue), client.get(queue)]
    return [message.body for message in messages if message is not None]


def test_a_message_with_malformed_headers_becomes_a_dead_letter(
    client: AmqpClient,
) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("q", arguments=arguments)
    publish_broken_and_sound(client, "q")
    take_two(client, "q")
    client.send(Basic.Nack(2, multiple=True, requeue=False))

    assert bodies(client, "dead") == [b"broken", b"sound"]


def test_a_message_with_malformed_headers_is_redelivered_by_a_quorum_queue(
    client: AmqpClient,
) -> None:
    client.declare("q", arguments={"x-queue-type": "quorum"})
    publish_broken_and_sound(client, "q")
    take_two(client, "q")
    client.send(Basic.Nack(2, multiple=True, requeue=True))

    assert bodies(client, "q") == [b"broken", b"sound"]
