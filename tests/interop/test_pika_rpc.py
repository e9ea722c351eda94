"""pika: requests and their replies, through a queue and without one."""

from threading import Thread
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.interop.conftest import Connect
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

REPLY_TO = "amq.rabbitmq.reply-to"
REQUESTS = 50


def serve(connection: pika.BlockingConnection, name: str, count: int) -> None:
    """Answer so many requests, each with its body in capitals."""
    channel = connection.channel()
    for method, properties, body in channel.consume(name, inactivity_timeout=HANG_SECONDS):
        assert method is not None, "no request"
        assert properties is not None
        assert body is not None
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", str(properties.reply_to), body.upper(), answer)
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if count == 0:
            break
    channel.cancel()


def ask(channel: BlockingChannel, name: str, reply_to: str) -> list[tuple[str, bytes]]:
    """Publish requests, one after the other, and return the replies."""
    replies: list[tuple[str, bytes]] = []

    def receive(_: Any, __: Any, properties: pika.BasicProperties, body: bytes) -> None:  # noqa: ANN401
        replies.append((str(properties.correlation_id), body))

    channel.basic_consume(reply_to, receive, auto_ack=True)
    for number in range(REQUESTS):
        properties = pika.BasicProperties(reply_to=reply_to, correlation_id=str(number))
        channel.basic_publish("", name, b"request %d" % number, properties)
        while len(replies) == number:
            channel.connection.process_data_events(time_limit=HANG_SECONDS)
    return replies


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "queue"])
def test_each_request_has_its_reply(connect: Connect, name: str, is_direct: bool) -> None:
    channel = connect().channel()
    channel.queue_declare(name)
    reply_to = REPLY_TO
    if not is_direct:
        reply_to = str(channel.queue_declare("", exclusive=True).method.queue)
    server = Thread(target=serve, args=(connect(), name, REQUESTS))
    server.start()
    replies = ask(channel, name, reply_to)
    server.join(HANG_SECONDS)
    assert replies == [(str(n), b"REQUEST %d" % n) for n in range(REQUESTS)]
    channel.queue_delete(name)


def test_a_direct_reply_needs_a_consumer_that_does_not_acknowledge(
    connection: pika.BlockingConnection,
) -> None:
    with pytest.raises(ChannelClosedByBroker, match="reply consumer cannot acknowledge"):
        connection.channel().basic_consume(REPLY_TO, print)


def test_a_reply_after_its_client_has_gone_comes_back(connect: Connect, name: str) -> None:
    client, server = connect(), connect().channel()
    server.queue_declare(name)
    server.confirm_delivery()
    asking = client.channel()
    asking.basic_consume(REPLY_TO, print, auto_ack=True)
    asking.basic_publish("", name, b"", pika.BasicProperties(reply_to=REPLY_TO))
    client.close()
    _, properties, _ = next(server.consume(name, auto_ack=True, inactivity_timeout=HANG_SECONDS))
    assert properties is not None
    with pytest.raises(pika.exceptions.UnroutableError):
        server.basic_publish("", str(properties.reply_to), b"late", mandatory=True)
