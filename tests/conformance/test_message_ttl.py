"""x-message-ttl and the property `expiration`: messages expire."""

import time

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.dead_letters import to
from tests.conformance.marks import differs
from tests.conformance.polling import MILLISECOND, eventually
from tests.conformance.queues import (
    Arguments,
    await_ready_count,
    outlive,
    publish_all,
    reject,
    take,
)

TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])
LONG_MS = 3_600_000


def expiring(milliseconds: int) -> Basic.Properties:
    return Basic.Properties(delivery_mode=2, expiration=str(milliseconds))


@TYPES
@pytest.mark.parametrize(
    ("of_queue_ms", "of_message_ms"),
    [(100, None), (None, 100), (100, LONG_MS), (LONG_MS, 100)],
    ids=["queue", "message", "queue-shorter", "message-shorter"],
)
def test_the_shorter_of_the_times_decides(
    connect: Connect,
    name: str,
    queue_type: str,
    of_queue_ms: int | None,
    of_message_ms: int | None,
) -> None:
    arguments: Arguments = {"x-queue-type": queue_type}
    if of_queue_ms is not None:
        arguments["x-message-ttl"] = of_queue_ms
    client = connect(confirms=True)
    client.declare(name, arguments=arguments)
    properties = Basic.Properties() if of_message_ms is None else expiring(of_message_ms)
    publish_all(client, name, b"x", properties=properties)
    await_ready_count(client, name, 0)
    assert client.get(name) is None


@TYPES
def test_a_message_stays_until_its_time_has_come(
    client: AmqpClient, new_name: NewName, queue_type: str
) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    arguments = to(dead_letters) | {"x-queue-type": queue_type, "x-message-ttl": 1_000}
    client.declare(queue, arguments=arguments)
    begin = time.monotonic()
    client.publish(b"x", queue)
    take(client, dead_letters)
    assert time.monotonic() - begin >= 1.0 - MILLISECOND


def test_expired_messages_are_neither_counted_nor_delivered(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    publish_all(client, name, b"short", b"short", properties=expiring(300))
    publish_all(client, name, b"long", properties=expiring(LONG_MS))
    publish_all(client, name, b"for ever")
    time.sleep(0.5)
    answer = client.call(Queue.Declare(queue=name, durable=True), Queue.DeclareOk)
    assert answer.message_count == 2
    client.consume(name)
    assert [client.expect_delivery().body for _ in range(2)] == [b"long", b"for ever"]


def test_expired_messages_are_not_purged(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-message-ttl": 100})
    publish_all(client, name, b"x")
    time.sleep(0.3)
    assert client.call(Queue.Purge(queue=name), Queue.PurgeOk).message_count == 0


@TYPES
@pytest.mark.parametrize("of_queue", [True, False], ids=["queue", "message"])
def test_a_message_with_a_lifetime_of_zero_goes_to_a_waiting_consumer(
    client: AmqpClient, name: str, queue_type: str, of_queue: bool
) -> None:
    arguments: Arguments = {"x-queue-type": queue_type}
    client.declare(name, arguments=arguments | ({"x-message-ttl": 0} if of_queue else {}))
    client.consume(name)
    properties = Basic.Properties() if of_queue else expiring(0)
    client.publish(b"at once", name, properties=properties)
    assert client.expect_delivery().body == b"at once"


@pytest.mark.parametrize("of_queue", [True, False], ids=["queue", "message"])
def test_a_message_with_a_lifetime_of_zero_expires_without_a_waiting_consumer(
    client: AmqpClient, new_name: NewName, of_queue: bool
) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    client.declare(queue, arguments=to(dead_letters) | ({"x-message-ttl": 0} if of_queue else {}))
    properties = Basic.Properties() if of_queue else expiring(0)
    client.publish(b"late", queue, properties=properties)
    assert take(client, dead_letters).body == b"late"
    assert client.ready_count(queue) == 0


def test_an_unacked_message_does_not_expire(client: AmqpClient, new_name: NewName) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    client.declare(queue, arguments=to(dead_letters) | {"x-message-ttl": 300})
    # A consumer waits for it, so that it is delivered before it expires.
    client.consume(queue)
    client.publish(b"x", queue)
    message = client.expect_delivery()
    outlive(client, new_name(), 300)
    assert client.ready_count(dead_letters) == 0
    client.send(Basic.Ack(message.tag))
    outlive(client, new_name(), 50)
    assert client.ready_count(dead_letters) == 0


@TYPES
def test_a_message_requeued_after_its_deadline_is_not_delivered_again(
    client: AmqpClient, new_name: NewName, queue_type: str
) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    arguments = to(dead_letters) | {"x-queue-type": queue_type, "x-message-ttl": 300}
    client.declare(queue, arguments=arguments)
    client.call(Basic.Consume(queue=queue, consumer_tag="c"), Basic.ConsumeOk)
    client.publish(b"x", queue)
    message = client.expect_delivery()
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    outlive(client, new_name(), 300)
    reject(client, message, requeue=True)
    assert client.get(queue) is None
    assert take(client, dead_letters).body == b"x"


def test_a_message_requeued_before_its_deadline_keeps_it(
    client: AmqpClient, new_name: NewName
) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    client.declare(queue, arguments=to(dead_letters) | {"x-message-ttl": 1_500})
    client.call(Basic.Consume(queue=queue, consumer_tag="c"), Basic.ConsumeOk)
    begin = time.monotonic()
    client.publish(b"x", queue)
    message = client.expect_delivery()
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    outlive(client, new_name(), 300)
    reject(client, message, requeue=True)
    again = client.get(queue, no_ack=False)
    # It can only be gone if its time has come.
    assert again is not None or time.monotonic() - begin >= 1.5 - MILLISECOND
    if again is not None:
        assert again.redelivered
        reject(client, again, requeue=True)
    take(client, dead_letters)
    assert time.monotonic() - begin >= 1.5 - MILLISECOND


@differs(
    rabbitmq="only what is at the head of a classic queue expires",
    reason="a message whose time has come should not wait for one that has more time",
)
def test_a_message_expires_behind_one_that_does_not(client: AmqpClient, new_name: NewName) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    client.declare(queue, arguments=to(dead_letters))
    client.publish(b"for ever", queue)
    client.publish(b"long", queue, properties=expiring(LONG_MS))
    client.publish(b"short", queue, properties=expiring(100))
    eventually(lambda: client.ready_count(dead_letters) == 1)
    assert take(client, dead_letters).body == b"short"
    assert client.ready_count(queue) == 2


@TYPES
@pytest.mark.parametrize("head_goes", ["got", "acknowledged"])
def test_a_message_whose_time_came_behind_another_one_is_not_delivered_when_that_is_gone(
    client: AmqpClient, new_name: NewName, queue_type: str, head_goes: str
) -> None:
    queue, dead_letters = new_name(), new_name()
    client.declare(dead_letters)
    client.declare(queue, arguments=to(dead_letters) | {"x-queue-type": queue_type})
    client.publish(b"for ever", queue)
    client.publish(b"short", queue, properties=expiring(100))
    if head_goes == "acknowledged":
        message = take(client, queue, no_ack=False)
    outlive(client, new_name(), 100)
    if head_goes == "got":
        assert take(client, queue).body == b"for ever"
    else:
        client.send(Basic.Ack(message.tag))
    assert client.get(queue) is None
    assert take(client, dead_letters).body == b"short"
    assert client.get(dead_letters) is None


def test_the_remaining_messages_keep_their_order(client: AmqpClient, name: str) -> None:
    client.declare(name)
    for number in range(10):
        properties = expiring(100) if number < 3 else Basic.Properties()
        client.publish(str(number).encode(), name, properties=properties)
    await_ready_count(client, name, 7)
    assert [take(client, name).body for _ in range(7)] == [str(n).encode() for n in range(3, 10)]


def test_a_queues_time_is_not_written_into_its_messages(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-message-ttl": LONG_MS})
    client.publish(b"x", name)
    assert take(client, name).properties.expiration is None
    client.publish(b"x", name, properties=expiring(5_000))
    assert take(client, name).properties.expiration == "5000"
