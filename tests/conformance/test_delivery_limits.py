"""`x-delivery-limit`: how often a message may return to a quorum queue."""

from collections import Counter

import pytest
from pamqp.commands import Basic, Channel

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import (
    drain,
    expect_bodies,
    fill,
    prefetch,
    publish_all,
)
from tests.conformance.dead_letters import to
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.polling import eventually
from tests.conformance.queues import await_ready_count, headers_of, reject, take
from tests.conformance.typed_fields import Typed, get_typed_headers

QUORUM = {"x-queue-type": "quorum"}


def returned(client: AmqpClient, queue: str, times: int) -> None:
    """Take the message and give it back so often."""
    for _ in range(times):
        reject(client, take(client, queue, no_ack=False), requeue=True)


def test_redeliveries_of_a_quorum_queue_are_counted(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM)
    client.publish(b"x", name, properties=Basic.Properties(headers={"mine": "kept"}))
    first = take(client, name, no_ack=False)
    assert headers_of(first).get("x-delivery-count", 0) == 0
    reject(client, first, requeue=True)
    for count in (1, 2):
        message = take(client, name, no_ack=False)
        assert message.redelivered
        assert headers_of(message)["x-delivery-count"] == count
        assert headers_of(message)["mine"] == "kept"
        reject(client, message, requeue=True)


@differs(
    rabbitmq="in the order of their return; without a limit to the end, as always in 3.10",
    reason="one rule for all queues: a message that comes back takes its old place",
)
def test_messages_that_come_back_take_their_place(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM)
    for number in range(4):
        client.publish(str(number).encode(), name)
    taken = [take(client, name, no_ack=False) for _ in range(2)]
    for message in reversed(taken):
        reject(client, message, requeue=True)
    await_ready_count(client, name, 4)
    assert [take(client, name).body for _ in range(4)] == [b"0", b"1", b"2", b"3"]


@differs_from_3_10("writes 0")
def test_a_first_delivery_has_no_count(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM)
    client.publish(b"x", name)
    assert take(client, name).properties.headers is None


def test_a_count_is_a_long(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM)
    client.publish(b"x", name)
    returned(client, name, 1)
    await_ready_count(client, name, 1)
    assert get_typed_headers(client, name)["x-delivery-count"] == Typed("l", 1)


def test_a_consumer_sees_the_count_too(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM)
    client.consume(name)
    client.publish(b"x", name)
    message = client.expect_delivery()
    for count in (1, 2, 3):
        reject(client, message, requeue=True)
        message = client.expect_delivery()
        assert headers_of(message)["x-delivery-count"] == count


@pytest.mark.parametrize("loss", ["channel", "connection"])
def test_a_lost_consumer_counts(connect: Connect, client: AmqpClient, name: str, loss: str) -> None:
    client.declare(name, arguments=QUORUM)
    client.publish(b"x", name)
    consumer = connect()
    take(consumer, name, no_ack=False)
    if loss == "channel":
        consumer.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    else:
        consumer.socket.close()
    assert headers_of(take(client, name))["x-delivery-count"] == 1


def test_a_classic_queue_does_not_count_returns(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.publish(b"x", name)
    returned(client, name, 2)
    message = take(client, name)
    assert message.redelivered
    assert "x-delivery-count" not in (message.properties.headers or {})


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_message_that_came_back_more_often_than_the_limit_is_gone(
    client: AmqpClient, name: str, limit: int
) -> None:
    client.declare(name, arguments=QUORUM | {"x-delivery-limit": limit})
    client.publish(b"x", name)
    returned(client, name, limit + 1)
    await_ready_count(client, name, 0)
    assert client.get(name) is None


def test_each_message_has_its_own_count(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM | {"x-delivery-limit": 2})
    client.publish(b"1", name)
    client.publish(b"2", name)
    first, second = (take(client, name, no_ack=False) for _ in range(2))
    client.send(Basic.Ack(second.tag))
    client.publish(b"3", name)
    reject(client, first, requeue=True)
    returned(client, name, 2)
    message = take(client, name)
    assert message.body == b"3"
    assert (message.properties.headers or {}).get("x-delivery-count", 0) == 0
    assert client.get(name) is None


@differs_from_3_10("has no limit unless one is given")
def test_without_a_limit_twenty_returns_are_allowed(client: AmqpClient, new_name: NewName) -> None:
    name, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead_letters}
    client.declare(name, arguments=QUORUM | to)
    client.publish(b"x", name)
    returned(client, name, 20)
    message = take(client, name, no_ack=False)
    assert headers_of(message)["x-delivery-count"] == 20
    reject(client, message, requeue=True)
    eventually(lambda: client.ready_count(dead_letters) == 1)


@differs_from_3_10("takes the first return for one too many")
def test_a_negative_limit_means_no_limit(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=QUORUM | {"x-delivery-limit": -1})
    client.publish(b"x", name)
    returned(client, name, 25)
    assert headers_of(take(client, name))["x-delivery-count"] == 25


@pytest.mark.parametrize("limit", [0, 2])
@pytest.mark.parametrize("is_kept", [True, False], ids=["dead-lettered", "dropped"])
def test_messages_that_are_gone_make_room_for_others(
    connect: Connect, new_name: NewName, is_kept: bool, limit: int
) -> None:
    """A consumer whose prefetch limit kept counting them would get nothing more."""
    name, dead_letters = new_name(), new_name()
    client = connect()
    client.declare(dead_letters)
    arguments = QUORUM | {"x-delivery-limit": limit} | (to(dead_letters) if is_kept else {})
    bodies = [b"%d" % number for number in range(12)]
    fill(client, name, len(bodies), arguments=arguments)
    prefetch(client, 3)
    client.consume(name)
    seen: Counter[bytes] = Counter()
    while seen.total() < len(bodies) * (limit + 1):
        messages = [client.expect_delivery() for _ in range(3)]
        seen.update(message.body for message in messages)
        client.send(Basic.Nack(messages[-1].tag, multiple=True, requeue=True))
    assert seen == Counter(bodies * (limit + 1))
    if is_kept:
        await_ready_count(client, dead_letters, len(bodies))
        assert sorted(drain(client, dead_letters)) == sorted(bodies)
    publish_all(connect(), name, [b"next"] * 3)
    assert expect_bodies(client, 3) == [b"next"] * 3
