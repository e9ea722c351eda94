"""Consumers with x-priority: the higher ones first, while they can take more."""

from collections import Counter

from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer


def consume(client: AmqpClient, tag: str, priority: int, *, queue: str = "q") -> None:
    method = Basic.Consume(queue=queue, consumer_tag=tag, arguments={"x-priority": priority})
    client.call(method, Basic.ConsumeOk)


def tag_of_next(client: AmqpClient) -> str:
    method = client.expect_delivery().method
    assert isinstance(method, Basic.Deliver)
    assert method.consumer_tag is not None
    return method.consumer_tag


def test_the_server_says_that_it_has_them(server: RunningServer) -> None:
    with AmqpClient(server.address) as client:
        client.login()
        assert client.server_properties["capabilities"]["consumer_priorities"] is True


def test_a_lower_priority_is_served_when_the_higher_ones_are_full_or_gone(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.call(Basic.Qos(prefetch_count=2), Basic.QosOk)
        consume(client, "low", -3)
        consume(client, "high", 2)
        for _ in range(3):
            client.publish(b"", "q")
        first = [client.expect_delivery() for _ in range(3)]
        tags = [
            each.method.consumer_tag for each in first if isinstance(each.method, Basic.Deliver)
        ]
        assert tags == ["high", "high", "low"]

        # One is answered: the next goes to the higher one again.
        client.send(Basic.Ack(delivery_tag=first[0].tag))
        client.publish(b"", "q")
        assert tag_of_next(client) == "high"

        client.call(Basic.Cancel(consumer_tag="high"), Basic.CancelOk)
        client.publish(b"", "q")
        assert tag_of_next(client) == "low"


def test_messages_already_there_go_to_the_higher_priority_that_comes_first(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        consume(client, "none", 0)
        consume(client, "high", 1)
        for _ in range(100):
            client.publish(b"", "q")
        assert Counter(tag_of_next(client) for _ in range(100)) == {"high": 100}


def test_a_shared_prefetch_of_one_goes_round_the_queues_of_a_channel(
    server: RunningServer,
) -> None:
    """The queue of the message that was answered was served again until it was empty."""
    queues = ["a", "b", "c"]
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in queues:
            client.declare(queue)
        for queue in queues:
            for _ in range(10):
                client.publish(b"", queue)
        client.expect_confirmed()
        client.open_channel(2)
        client.call(Basic.Qos(prefetch_count=1, global_=True), Basic.QosOk, 2)
        client.send(Basic.Consume(queue="a", consumer_tag="a"), 2)
        client.expect(Basic.ConsumeOk, 2)
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
