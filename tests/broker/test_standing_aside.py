"""Consumers that stand aside: what those who can take messages still get."""

from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic

from tests.amqp_client import connect
from tests.cutting import cut_everywhere, together
from tests.threaded_server import ThreadedServer

FULL = 6


def test_who_cancels_gets_what_was_published_before_though_many_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in RabbitMQ, and as `cancel` says, also while others are put aside."""
    cut_everywhere(monkeypatch)
    # Those that are full are passed until the end, when one message makes them stand aside.
    monkeypatch.setattr("amqp_server.broker.consuming.dispatch.FEW_PASSED", 1000)
    monkeypatch.setattr("amqp_server.broker.consuming.dispatch.STEP_ASIDE", 1001)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", durable=False)
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        for number in range(FULL):
            client.call(Basic.Consume(queue="q", consumer_tag=f"full{number}"), Basic.ConsumeOk)
            client.publish(b"", "q", properties=Basic.Properties())
            client.expect_delivery()
        client.call(Basic.Consume(queue="q", consumer_tag="able"), Basic.ConsumeOk)
        monkeypatch.setattr("amqp_server.broker.consuming.dispatch.STEP_ASIDE", 1)
        monkeypatch.setattr("amqp_server.broker.consuming.dispatch.FEW_PASSED", 0)
        published = client.publish_octets(Basic.Publish(0, "", "q"), b"last", Basic.Properties())

        together(server, (client, published + frame.marshal(Basic.Cancel("able"), 1)))

        _, answer = client.receive()
        assert isinstance(answer, Basic.Deliver), "cancelled before the message that it could take"


def test_a_full_single_active_consumer_leaves_the_queue_in_peace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never put aside: with steps of one consumer its queue took every turn."""
    cut_everywhere(monkeypatch)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-single-active-consumer": True, "x-max-length": 1})
        client.consume("q", prefetch=1)
        for number in range(5):
            client.publish(b"%d" % number, "q")
        assert client.expect_delivery().body == b"0"

        server.wait_until(
            lambda: (
                server.server.broker.turn.is_idle
                and server.server.broker.vhosts["/"].queues["q"].ready_count == 1
            )
        )
