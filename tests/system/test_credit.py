"""The consumers of one channel share its credit, and all of them get what an ack returns."""

from collections import Counter
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel

from amqp_server.base.config import Limits
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer


def test_a_channel_that_was_full_serves_its_other_consumers_after_an_ack(tmp_path: Path) -> None:
    """Only the queue of the settled messages used to be asked again."""
    limits = Limits(unacked_messages_per_channel_max=3)
    with (
        ThreadedServer(tmp_path, limits=limits) as server,
        connect(server.address) as client,
        connect(server.address) as publisher,
    ):
        publisher.open_channel(confirms=True)
        publisher.declare("full")
        publisher.declare("waiting")
        client.open_channel()
        client.consume("full")
        client.consume("waiting")
        for _ in range(3):
            publisher.publish(b"fills the channel", "full")
            client.expect_delivery()
        publisher.publish(b"waits for room", "waiting")
        publisher.expect_confirmed()

        client.send(Basic.Ack(delivery_tag=3, multiple=True))

        assert client.expect_delivery().body == b"waits for room"


def test_a_shared_prefetch_of_one_serves_the_queues_of_a_channel_in_turn(tmp_path: Path) -> None:
    """The queue of the message that was answered was served again until it was empty."""
    queues = ["a", "b", "c"]
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in queues:
            client.declare(queue)
            for _ in range(10):
                client.publish(b"", queue)
            client.expect_confirmed()
        client.open_channel(2)
        client.call(Basic.Qos(prefetch_count=1, global_=True), Basic.QosOk, 2)
        client.call(Basic.Consume(queue="a", consumer_tag="a"), Basic.ConsumeOk, 2)
        last = client.expect_delivery(2)
        for queue in ("b", "c"):
            client.call(Basic.Consume(queue=queue, consumer_tag=queue), Basic.ConsumeOk, 2)
        seen = Counter({"a": 1})
        for _ in range(29):
            client.send(Basic.Ack(delivery_tag=last.tag), 2)
            last = client.expect_delivery(2)
            assert isinstance(last.method, Basic.Deliver)
            seen[str(last.method.consumer_tag)] += 1
            assert max(seen.values()) - min(seen[queue] for queue in queues) <= 1, seen


@pytest.mark.parametrize("answer", ["ack", "ack all", "nack", "qos", "leave"])
def test_many_consumers_that_have_all_they_can_take_get_more_when_they_answer(
    start_server: StartServer, answer: str
) -> None:
    """So many that the queue puts them aside."""
    consumers, messages = 300, 600
    # A client of Celery may change the limit of running consumers.
    server = start_server("--present-product", "LavinMQ")
    with (
        connect(server.address, properties={"product": "py-amqp"}) as client,
        connect(server.address) as other,
    ):
        client.open_channel()
        client.declare("q")
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        for number in range(consumers):
            client.call(Basic.Consume(queue="q", consumer_tag=f"c{number}"), Basic.ConsumeOk)
        other.open_channel(confirms=True)
        for number in range(messages):
            other.publish(b"%d" % number, "q")
        other.expect_confirmed()
        first = [client.expect_delivery() for _ in range(consumers)]
        bodies = {message.body for message in first}
        assert len(bodies) == consumers
        # Each look at the queue is a look at its consumers.
        for _ in range(2):
            assert other.ready_count("q") == messages - consumers
        match answer:
            case "ack":
                for message in reversed(first):
                    client.send(Basic.Ack(message.tag))
            case "ack all":
                client.send(Basic.Ack(first[-1].tag, multiple=True))
            case "nack":
                for message in first:
                    client.send(Basic.Nack(message.tag, requeue=False))
            case "qos":
                client.call(Basic.Qos(prefetch_count=2), Basic.QosOk)
            case _:
                client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
                other.consume("q")
                every = [other.expect_delivery() for _ in range(messages)]
                assert {message.body for message in every} == {b"%d" % at for at in range(messages)}
                return
        bodies |= {client.expect_delivery().body for _ in range(consumers)}
        assert len(bodies) == messages


@pytest.mark.parametrize("multiple", [True, False], ids=["multiple", "one by one"])
@pytest.mark.parametrize("target", [{}, {"x-dead-letter-exchange": ""}], ids=["gone", "dead"])
@pytest.mark.parametrize("limit", [0, 2])
def test_each_message_that_exceeds_its_delivery_limit_makes_room_for_exactly_one(
    server: RunningServer, target: dict[str, str], limit: int, multiple: bool
) -> None:
    """RabbitMQ 3.10 delivers more then than the consumer's limit allows."""
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": limit, **target}
    with connect(server.address) as client, connect(server.address) as publisher:
        publisher.open_channel(confirms=True)
        publisher.declare("dead")
        key = {"x-dead-letter-routing-key": "dead"} if target else {}
        publisher.declare("q", arguments={**arguments, **key})
        for number in range(15):
            publisher.publish(b"%d" % number, "q")
        publisher.expect_confirmed()
        client.open_channel()
        client.consume("q", prefetch=3)
        for first in range(0, 12, 3):
            for _ in range(limit + 1):
                messages = [client.expect_delivery() for _ in range(3)]
                bodies = {message.body for message in messages}
                assert bodies == {b"%d" % number for number in range(first, first + 3)}
                if multiple:
                    client.send(Basic.Nack(messages[-1].tag, multiple=True, requeue=True))
                    continue
                for message in messages:
                    client.send(Basic.Reject(message.tag, requeue=True))
        assert [client.expect_delivery().body for _ in range(3)] == [b"12", b"13", b"14"]
        for number in range(3):
            publisher.publish(b"%d" % number, "q")
        publisher.expect_confirmed()
        # No fourth one has come before the answer.
        assert client.ready_count("q") == 3
        if target:
            dead = [publisher.get("dead") for _ in range(13)]
            assert [each.body for each in dead if each] == [b"%d" % at for at in range(12)]
