"""Lets one client do a bit of everything that a broker counts."""

from __future__ import annotations

from typing import Final

from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient

QUEUE: Final = "orders"
STREAM: Final = "events"
GROUP: Final = "billing"
EXCHANGE: Final = "shop"


def declare_objects(client: AmqpClient) -> None:
    """Open a channel, and declare a queue with dead letters, a stream and an exchange."""
    client.open_channel(confirms=True)
    client.call(Exchange.Declare(exchange=EXCHANGE, exchange_type="topic"), Exchange.DeclareOk)
    client.declare("dead")
    client.declare(
        QUEUE,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    )
    client.declare(STREAM, arguments={"x-queue-type": "stream"})
    client.call(Queue.Bind(queue=QUEUE, exchange=EXCHANGE, routing_key="#"), Queue.BindOk)


def follow_stream(client: AmqpClient, group: str = GROUP) -> None:
    """Open a channel, and consume from the stream in a group; one message is never acked."""
    client.open_channel()
    arguments = {"x-consumer-group": group, "x-stream-offset": "first"}
    client.consume(STREAM, prefetch=1, arguments=arguments)


def use_objects(client: AmqpClient) -> None:
    """Publish, get, consume, acknowledge and reject; may be done again."""
    client.call(Queue.Purge(queue=QUEUE), Queue.PurgeOk)
    for size in (10, 500, 20_000):
        client.publish(b"x" * size, "created", EXCHANGE)
        client.expect_confirmed()
    client.publish(b"event", STREAM)
    client.expect_confirmed()
    client.publish(b"nowhere", "no queue of this name")
    client.expect_confirmed()
    client.publish(b"nowhere", "no queue of this name", mandatory=True)
    client.expect_return()
    client.expect_confirmed()

    taken = client.get(QUEUE, no_ack=False)
    assert taken is not None
    client.send(Basic.Nack(taken.tag, requeue=True))
    taken = client.get(QUEUE, no_ack=False)
    assert taken is not None
    client.send(Basic.Ack(taken.tag))
    assert client.get(QUEUE) is not None
    taken = client.get(QUEUE, no_ack=False)
    assert taken is not None
    client.send(Basic.Nack(taken.tag, requeue=False))
    assert client.get(QUEUE) is None
    for no_ack in (True, False):
        client.publish(b"for a consumer", "created", EXCHANGE)
        client.expect_confirmed()
        client.consume(QUEUE, no_ack=no_ack)
        delivered = client.expect_delivery()
        assert isinstance(delivered.method, Basic.Deliver)
        if not no_ack:
            client.send(Basic.Ack(delivered.tag))
        consumer_tag = delivered.method.consumer_tag
        client.call(Basic.Cancel(consumer_tag=consumer_tag), Basic.CancelOk)
    client.publish(b"stays", "created", EXCHANGE)
    client.expect_confirmed()
