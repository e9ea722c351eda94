"""Streams: every consumer has its own place in the log, and nothing leaves."""

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer

STREAM = {"x-queue-type": "stream"}


def offset_of(message: Message) -> int:
    headers = message.properties.headers
    assert headers is not None
    offset = headers["x-stream-offset"]
    assert isinstance(offset, int)
    return offset


@pytest.fixture
def client(server: RunningServer) -> AmqpClient:
    client = connect(server.address)
    client.open_channel(confirms=True)
    client.declare("events", arguments=STREAM)
    return client


def publish(client: AmqpClient, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        client.publish(b"%d" % number, "events")
    client.expect_confirmed()


def test_each_consumer_gets_everything_from_where_it_begins(client: AmqpClient) -> None:
    publish(client, 10)
    for channel, start in ((2, "first"), (3, 7)):
        client.open_channel(channel)
        arguments = {"x-stream-offset": start}
        client.consume("events", prefetch=100, arguments=arguments, channel=channel)
        first = 0 if start == "first" else 7
        for number in range(first, 10):
            message = client.expect_delivery(channel)
            assert message.body == b"%d" % number
            assert offset_of(message) == number
    assert client.ready_count("events") == 10
    client.close()


def test_a_consumer_that_says_nothing_gets_what_comes_next(client: AmqpClient) -> None:
    publish(client, 3)
    client.open_channel(2)
    client.consume("events", prefetch=10, channel=2)
    publish(client, 1, first=3)
    assert offset_of(client.expect_delivery(2)) == 3
    client.close()


def test_acknowledging_gives_credit_and_takes_nothing_away(client: AmqpClient) -> None:
    publish(client, 5)
    for channel in (2, 3):
        client.open_channel(channel)
        first = {"x-stream-offset": "first"}
        client.consume("events", prefetch=2, arguments=first, channel=channel)
        for number in range(5):
            message = client.expect_delivery(channel)
            assert offset_of(message) == number
            client.send(Basic.Ack(message.tag), channel)
    client.close()


def test_the_offsets_of_a_stream_survive_a_restart(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("events", arguments=STREAM)
        publish(client, 5)
    server.terminate()
    server.restart()
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        publish(client, 5, first=5)
        client.open_channel(2)
        client.consume("events", prefetch=100, arguments={"x-stream-offset": "first"}, channel=2)
        for number in range(10):
            message = client.expect_delivery(2)
            assert (offset_of(message), message.body) == (number, b"%d" % number)


def test_deleting_a_stream_ends_its_consumers(client: AmqpClient) -> None:
    publish(client, 1)
    client.open_channel(2)
    client.consume("events", prefetch=10, channel=2)
    client.send(Queue.Delete(queue="events"))
    assert client.expect(Basic.Cancel, 2).consumer_tag
    client.expect(Queue.DeleteOk)
    client.close()
