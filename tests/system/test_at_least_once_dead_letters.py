"""At-least-once dead letters that have no room or no route for a while, and others beside them."""

import time
from collections import Counter

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

LOST = 300
PROMISES = {
    "x-queue-type": "quorum",
    "x-overflow": "reject-publish",
    "x-dead-letter-strategy": "at-least-once",
    "x-dead-letter-exchange": "dlx",
}


def await_ready(client: AmqpClient, queue: str, count: int) -> None:
    while client.ready_count(queue) != count:
        time.sleep(0.02)


def test_a_queue_with_room_gets_one_dead_letter_however_often_another_queue_refuses_it(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Declare(exchange="dlx", exchange_type="fanout"), Exchange.DeclareOk)
        client.declare("roomy")
        client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        for queue in ("roomy", "full"):
            client.call(Queue.Bind(queue=queue, exchange="dlx"), Queue.BindOk)
        client.declare("q", arguments=PROMISES)
        for body in (b"0", b"1", b"2"):
            client.publish(body, "q")
        await_ready(client, "q", 3)
        for _ in range(3):
            assert client.get("q", no_ack=False) is not None
        client.send(Basic.Nack(3, multiple=True, requeue=False))

        # Each round through the full queue takes a try, once a second.
        for body in (b"0", b"1", b"2"):
            await_ready(client, "full", 1)
            letter = client.get("full")
            assert letter is not None
            assert letter.body == body
        assert client.ready_count("roomy") == 3


@pytest.mark.parametrize("source", ["same queue", "other queue"])
def test_dead_letters_without_a_route_hold_up_no_others(server: RunningServer, source: str) -> None:
    """RabbitMQ 3.10 sends no more of a queue's dead letters when 32 of them have no route."""
    queues = ("q", "q" if source == "same queue" else "other")
    with connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Declare(exchange="dlx", exchange_type="direct"), Exchange.DeclareOk)
        client.declare("dead")
        client.call(Queue.Bind(queue="dead", exchange="dlx", routing_key="routed"), Queue.BindOk)
        # Dead letters keep the keys that their messages had.
        for queue, key in zip(queues, ("lost", "routed"), strict=True):
            client.declare(queue, arguments=PROMISES)
            bind = Queue.Bind(queue=queue, exchange="amq.direct", routing_key=key)
            client.call(bind, Queue.BindOk)
        for number in range(LOST):
            client.publish(b"lost %d" % number, "lost", "amq.direct")
        for number in range(3):
            client.publish(b"%d" % number, "routed", "amq.direct")
        counts = Counter({queues[0]: LOST}) + Counter({queues[1]: 3})
        for channel, (queue, count) in enumerate(counts.items(), 2):
            client.open_channel(channel)
            client.consume(queue, channel=channel)
            last = [client.expect_delivery(channel) for _ in range(count)][-1]
            client.send(Basic.Nack(last.tag, multiple=True, requeue=False), channel)
        client.consume("dead", no_ack=True)
        assert [client.expect_delivery().body for _ in range(3)] == [b"0", b"1", b"2"]

        # None of those that wait is lost.
        client.call(Queue.Bind(queue="dead", exchange="dlx", routing_key="lost"), Queue.BindOk)
        found = [client.expect_delivery().body for _ in range(LOST)]
        assert found == [b"lost %d" % number for number in range(LOST)]
