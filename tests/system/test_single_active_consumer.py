"""x-single-active-consumer: one consumer is served, the next one follows when it goes."""

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

SINGLE = {"x-single-active-consumer": True}


def consume(client: AmqpClient, tag: str, *, priority: int = 0) -> None:
    method = Basic.Consume(queue="q", consumer_tag=tag, arguments={"x-priority": priority})
    client.call(method, Basic.ConsumeOk)


def next_deliveries(client: AmqpClient, count: int) -> list[tuple[str | None, bytes, bool]]:
    seen = []
    for _ in range(count):
        message = client.expect_delivery()
        assert isinstance(message.method, Basic.Deliver)
        seen.append((message.method.consumer_tag, message.body, message.redelivered))
    return seen


def expect_nothing(client: AmqpClient) -> None:
    """Return when an answer came that would have come after any delivery."""
    client.call(Basic.Qos(prefetch_count=0), Basic.QosOk)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_first_is_served_and_the_next_one_when_it_is_cancelled(
    server: RunningServer, kind: str
) -> None:
    with connect(server.address) as first, connect(server.address) as second:
        first.open_channel()
        second.open_channel()
        first.declare("q", arguments=SINGLE | {"x-queue-type": kind})
        consume(first, "first")
        consume(second, "second")
        for body in (b"1", b"2"):
            first.publish(body, "q")
        assert next_deliveries(first, 2) == [("first", b"1", False), ("first", b"2", False)]
        expect_nothing(second)

        first.call(Basic.Cancel(consumer_tag="first"), Basic.CancelOk)
        first.publish(b"3", "q")
        assert next_deliveries(second, 1) == [("second", b"3", False)]
        # What the first one has not answered comes to the second when it gives it back.
        first.send(Basic.Nack(delivery_tag=0, multiple=True, requeue=True))
        assert next_deliveries(second, 2) == [("second", b"1", True), ("second", b"2", True)]


def test_a_consumer_that_is_lost_leaves_what_it_had_to_the_next(server: RunningServer) -> None:
    with connect(server.address) as second:
        second.open_channel()
        second.declare("q", arguments=SINGLE)
        with connect(server.address) as first:
            first.open_channel()
            consume(first, "first")
            consume(second, "second")
            first.publish(b"1", "q")
            first.publish(b"2", "q")
            assert len(next_deliveries(first, 2)) == 2
        assert next_deliveries(second, 2) == [("second", b"1", True), ("second", b"2", True)]


def test_a_full_active_consumer_leaves_nothing_to_those_that_wait(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=SINGLE)
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        consume(client, "active")
        consume(client, "waiting", priority=9)
        client.publish(b"1", "q")
        client.publish(b"2", "q")
        assert next_deliveries(client, 1) == [("active", b"1", False)]
        assert client.ready_count("q") == 1
        client.send(Basic.Ack(delivery_tag=1))
        assert next_deliveries(client, 1) == [("active", b"2", False)]


def test_the_highest_priority_follows_the_first_come_among_equals(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=SINGLE)
        for tag, priority in (("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", -1)):
            consume(client, tag, priority=priority)
        for expected in "acdbe":
            client.publish(b"", "q")
            assert next_deliveries(client, 1) == [(expected, b"", False)]
            client.call(Basic.Cancel(consumer_tag=expected), Basic.CancelOk)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("others", [0, 1])
def test_an_exclusive_consumer_is_refused(server: RunningServer, kind: str, others: int) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=SINGLE | {"x-queue-type": kind})
        if others:
            consume(client, "other")
        client.send(Basic.Consume(queue="q", exclusive=True))
        close = client.expect_channel_close(403)
        assert close.reply_text == "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
        assert (close.class_id, close.method_id) == (60, 20)


def test_a_classic_queue_lets_anybody_get(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=SINGLE)
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        consume(client, "active")
        client.publish(b"1", "q")
        client.publish(b"2", "q")
        assert len(next_deliveries(client, 1)) == 1
        message = client.get("q")
        assert message is not None
        assert message.body == b"2"


def test_a_quorum_queue_lets_nobody_get(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments=SINGLE | {"x-queue-type": "quorum"})
        client.send(Basic.Get(queue="q"))
        close = client.expect_channel_close(405)
        assert close.reply_text == (
            "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. "
            "basic.get operations are not supported by quorum queues with single active consumer"
        )
        assert (close.class_id, close.method_id) == (60, 70)
