"""At-least-once dead letters for several queues, one of which has no room for a while."""

import time

from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer


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
        promises = {
            "x-queue-type": "quorum",
            "x-overflow": "reject-publish",
            "x-dead-letter-strategy": "at-least-once",
            "x-dead-letter-exchange": "dlx",
        }
        client.declare("q", arguments=promises)
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
