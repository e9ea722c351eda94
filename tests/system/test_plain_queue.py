"""A queue that uses no special feature has none of its parts, whatever clients do with it."""

from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic

from amqp_server.control.client import ask
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

PARTS = {
    "DeliveryCounts",
    "ExpiryTimer",
    "ForcedRemoval",
    "Forwarder",
    "Groups",
    "QueueRules",
    "RefusalLog",
    "Subscriptions",
    "ThrottledPublishers",
}


def parts_of(server: ThreadedServer, name: str) -> set[str]:
    queue = server.server.broker.vhosts["/"].queues[name]
    return PARTS & {type(value).__name__ for value in vars(queue).values()}


@pytest.mark.interpreted("all attributes of a queue")
def test_a_plain_queue_runs_none_of_the_code_of_special_features(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for name, is_durable in (("durable", True), ("transient", False)):
            client.declare(name, durable=is_durable)
            for _ in range(3):
                client.publish(b"message", name, properties=Basic.Properties(delivery_mode=2))
                client.expect_confirmed()
            client.consume(name, no_ack=False)
            tags = [client.expect_delivery().tag for _ in range(3)]
            client.send_raw(frame.marshal(Basic.Ack(delivery_tag=tags[-1], multiple=True), 1))
            assert client.ready_count(name) == 0
            ask(tmp_path, "queues.stats", queue=name, vhost="", limit=10, after="")

            assert parts_of(server, name) == set()


@pytest.mark.interpreted("all attributes of a queue")
def test_a_part_is_made_when_it_is_used(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("browsed", durable=True)
        client.consume("browsed", prefetch=1, arguments={"x-browse": True})
        client.declare("expiring", arguments={"x-expires": 60_000})
        client.declare("dying", arguments={"x-dead-letter-exchange": ""})

        assert parts_of(server, "browsed") == {"Subscriptions"}
        assert parts_of(server, "expiring") == {"ExpiryTimer"}
        assert parts_of(server, "dying") == {"Forwarder"}
