"""Why a message becomes a dead letter."""

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.dead_letters import deaths, die, to
from tests.conformance.marks import ours_only
from tests.conformance.queues import (
    Arguments,
    await_ready_count,
    headers_of,
    leave,
    outlive,
    reject,
    take,
)

TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


@TYPES
@pytest.mark.parametrize("method", ["reject", "nack"])
def test_a_rejected_message_becomes_a_dead_letter(
    client: AmqpClient, name: str, dead_letters: str, queue_type: str, method: str
) -> None:
    client.declare(name, arguments=to(dead_letters) | {"x-queue-type": queue_type})
    client.publish(b"x", name)
    tag = take(client, name, no_ack=False).tag
    client.send(Basic.Reject(tag, False) if method == "reject" else Basic.Nack(tag, False, False))
    assert deaths(take(client, dead_letters)) == [(name, "rejected", 1)]


MANY = 2_000


def receive_many(client: AmqpClient, queue: str) -> list[bytes]:
    """Consume and return the bodies of `MANY` deliveries; nothing is acknowledged."""
    client.consume(queue)
    return [client.expect_delivery().body for _ in range(MANY)]


def publish_many(client: AmqpClient, queue: str) -> list[bytes]:
    """Publish `MANY` messages and return their bodies."""
    bodies = [str(number).encode() for number in range(MANY)]
    for body in bodies:
        client.publish(body, queue)
    return bodies


def test_many_rejected_messages_become_dead_letters_in_their_order(
    connect: Connect, client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    bodies = publish_many(client, name)
    consumer = connect()
    assert receive_many(consumer, name) == bodies
    consumer.send(Basic.Nack(0, multiple=True, requeue=False))
    assert receive_many(client, dead_letters) == bodies


def test_many_expired_messages_become_dead_letters_in_their_order(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters) | {"x-message-ttl": 200})
    bodies = publish_many(client, name)
    assert receive_many(client, dead_letters) == bodies


def test_many_dropped_messages_become_dead_letters_in_their_order(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters) | {"x-max-length": 0})
    bodies = publish_many(client, name)
    assert receive_many(client, dead_letters) == bodies


@pytest.mark.parametrize("end", ["delete", "auto-delete", "exclusive"])
def test_messages_rejected_before_the_deletion_of_their_queue_are_dead_letters(
    connect: Connect, client: AmqpClient, name: str, dead_letters: str, end: str
) -> None:
    consumer = connect()
    consumer.declare(
        name,
        arguments=to(dead_letters),
        auto_delete=end == "auto-delete",
        exclusive=end == "exclusive",
    )
    bodies = publish_many(client, name)
    receive_many(consumer, name)
    consumer.send(Basic.Nack(0, multiple=True, requeue=False))
    if end == "delete":
        consumer.send(Queue.Delete(queue=name))
    else:
        leave(consumer)
    assert receive_many(client, dead_letters) == bodies


@TYPES
@pytest.mark.parametrize("of_queue", [True, False], ids=["queue", "message"])
def test_an_expired_message_becomes_a_dead_letter(
    client: AmqpClient, name: str, dead_letters: str, queue_type: str, of_queue: bool
) -> None:
    arguments = to(dead_letters) | {"x-queue-type": queue_type}
    client.declare(name, arguments=arguments | ({"x-message-ttl": 50} if of_queue else {}))
    client.publish(b"x", name, properties=Basic.Properties(expiration=None if of_queue else "50"))
    assert deaths(take(client, dead_letters)) == [(name, "expired", 1)]


@TYPES
@pytest.mark.parametrize("limit", [{"x-max-length": 1}, {"x-max-length-bytes": 5}], ids=str)
def test_a_dropped_message_becomes_a_dead_letter(
    client: AmqpClient, name: str, dead_letters: str, queue_type: str, limit: Arguments
) -> None:
    client.declare(name, arguments=to(dead_letters) | limit | {"x-queue-type": queue_type})
    for body in (b"first", b"other"):
        client.publish(body, name)
    message = take(client, dead_letters)
    assert message.body == b"first"
    assert deaths(message) == [(name, "maxlen", 1)]
    assert take(client, name).body == b"other"


def test_a_message_that_came_back_too_often_becomes_a_dead_letter(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    arguments = to(dead_letters) | {"x-queue-type": "quorum", "x-delivery-limit": 1}
    client.declare(name, arguments=arguments)
    client.publish(b"x", name)
    for _ in range(2):
        reject(client, take(client, name, no_ack=False), requeue=True)
    assert deaths(take(client, dead_letters)) == [(name, "delivery_limit", 1)]


@pytest.mark.parametrize("action", ["ack", "purge", "delete", "no-ack"])
def test_messages_removed_in_another_way_are_no_dead_letters(
    client: AmqpClient, name: str, dead_letters: str, action: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    client.publish(b"x", name)
    await_ready_count(client, name, 1)
    if action == "ack":
        client.send(Basic.Ack(take(client, name, no_ack=False).tag))
    elif action == "purge":
        client.call(Queue.Purge(queue=name), Queue.PurgeOk)
    elif action == "no-ack":
        take(client, name)
    client.call(Queue.Delete(queue=name), Queue.DeleteOk)
    assert client.ready_count(dead_letters) == 0


def test_a_queue_without_a_dead_letter_exchange_drops(client: AmqpClient, name: str) -> None:
    client.declare(name)
    die(client, name)
    assert client.get(name) is None


def test_a_missing_dead_letter_exchange_is_as_none(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-dead-letter-exchange": f"{name}-none"})
    die(client, name)
    assert client.get(name) is None
    client.publish(b"next", name)
    assert take(client, name).body == b"next"


def test_a_dead_letter_exchange_may_be_declared_later(
    client: AmqpClient, name: str, new_name: NewName, dead_letters: str
) -> None:
    client.declare(name, arguments={"x-dead-letter-exchange": name})
    die(client, name, body=b"lost")
    # The broker routes a dead letter in its own time: it must not meet the exchange.
    outlive(client, new_name(), 50)
    exchange = Exchange.Declare(exchange=name, exchange_type="fanout")
    client.call(exchange, Exchange.DeclareOk)
    client.call(Queue.Bind(queue=dead_letters, exchange=name), Queue.BindOk)
    die(client, name, body=b"kept")
    assert take(client, dead_letters).body == b"kept"


@pytest.mark.parametrize("dies_of", ["rejected", "expired", "delivery_limit"])
def test_a_quorum_queue_may_promise_each_dead_letter(
    client: AmqpClient, name: str, dead_letters: str, dies_of: str
) -> None:
    arguments = to(dead_letters) | {
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-delivery-limit": 0,
    }
    if dies_of == "expired":
        arguments["x-message-ttl"] = 50
    client.declare(name, arguments=arguments)
    client.publish(b"x", name)
    if dies_of != "expired":
        message = take(client, name, no_ack=False)
        reject(client, message, requeue=dies_of == "delivery_limit")
    message = take(client, dead_letters)
    assert deaths(message) == [(name, dies_of, 1)]
    assert headers_of(message)["x-first-death-reason"] == dies_of


@ours_only("RabbitMQ tries again only after minutes")
def test_a_promised_dead_letter_that_no_queue_takes_waits_for_one(
    client: AmqpClient, new_name: NewName
) -> None:
    queue, later = new_name(), new_name()
    arguments = to(later) | {
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    client.declare(queue, arguments=arguments)
    die(client, queue, body=b"promised")
    assert client.ready_count(queue) == 0
    client.declare(later)
    assert take(client, later).body == b"promised"
