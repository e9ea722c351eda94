"""Section 5: why a message becomes a dead letter, and what it carries then."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, Message
from tests.conformance.conftest import Connect, NewName
from tests.conformance.marks import differs, ours_only
from tests.conformance.queues import (
    Arguments,
    await_ready_count,
    headers_of,
    leave,
    publish_all,
    reject,
    take,
)
from tests.conformance.typed_fields import Typed, get_typed_headers

TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


def deaths(message: Message) -> list[tuple[str, str, int]]:
    """Return queue, reason and count of each death, in the order of the header."""
    return [
        (each["queue"], each["reason"], each["count"]) for each in headers_of(message)["x-death"]
    ]


def to(queue: str) -> Arguments:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


@pytest.fixture
def dead_letters(client: AmqpClient, new_name: NewName) -> str:
    """Declare a queue for dead letters."""
    queue = new_name()
    client.declare(queue)
    return queue


def die(
    client: AmqpClient, queue: str, properties: Basic.Properties | None = None, body: bytes = b"x"
) -> None:
    """Publish to a queue, take it there and reject it."""
    client.publish(body, queue, properties=properties or Basic.Properties())
    reject(client, take(client, queue, no_ack=False))


# Reasons


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
def test_messages_that_were_rejected_before_their_queue_goes_are_dead_letters(
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
def test_what_goes_otherwise_is_no_dead_letter(
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
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments={"x-dead-letter-exchange": name})
    die(client, name, body=b"lost")
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


# The headers


def test_the_first_death_is_written_in_exactly_these_types(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    exchange = Exchange.Declare(exchange=name, exchange_type="fanout")
    client.call(exchange, Exchange.DeclareOk)
    client.declare(name, arguments=to(dead_letters))
    client.call(Queue.Bind(queue=name, exchange=name), Queue.BindOk)
    begin = int(time.time())
    given: Any = {"mine": "kept", "CC": ["copy"], "BCC": ["blind"]}
    client.publish(b"x", "key", name, properties=Basic.Properties(headers=given))
    reject(client, take(client, name, no_ack=False))
    await_ready_count(client, dead_letters, 1)
    seen = get_typed_headers(client, dead_letters)
    assert seen["mine"] == Typed("S", "kept")
    [death] = seen["x-death"].value
    assert (seen["x-death"].kind, death.kind) == ("A", "F")
    when = death.value.pop("time")
    assert when.kind == "T"
    assert begin <= when.value <= time.time()
    assert death.value == {
        "count": Typed("l", 1),
        "reason": Typed("S", "rejected"),
        "queue": Typed("S", name),
        "exchange": Typed("S", name),
        "routing-keys": Typed("A", [Typed("S", "key"), Typed("S", "copy")]),
    }
    assert seen["x-first-death-reason"] == Typed("S", "rejected")
    assert seen["x-first-death-queue"] == Typed("S", name)
    assert seen["x-first-death-exchange"] == Typed("S", name)


def test_the_time_of_a_death_is_told_in_seconds(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    die(client, name)
    told = headers_of(take(client, dead_letters))["x-death"][0]["time"]
    assert abs((told - datetime.now(UTC)).total_seconds()) < 60


@pytest.mark.parametrize("dies_of", ["expired", "rejected"])
def test_an_expiration_moves_from_the_properties_into_the_death(
    client: AmqpClient, name: str, dead_letters: str, dies_of: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    if dies_of == "expired":
        client.publish(b"x", name, properties=Basic.Properties(expiration="50"))
    else:
        die(client, name, Basic.Properties(expiration="3600000"))
    await_ready_count(client, dead_letters, 1)
    message = take(client, dead_letters)
    assert message.properties.expiration is None
    [death] = headers_of(message)["x-death"]
    assert death["original-expiration"] == ("50" if dies_of == "expired" else "3600000")


def test_a_queues_time_is_no_original_expiration(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters) | {"x-message-ttl": 50})
    client.publish(b"x", name)
    [death] = headers_of(take(client, dead_letters))["x-death"]
    assert "original-expiration" not in death


def test_an_expired_message_does_not_expire_again_among_the_dead_letters(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    client.publish(b"x", name, properties=Basic.Properties(expiration="50"))
    await_ready_count(client, dead_letters, 1)
    time.sleep(0.3)
    assert client.ready_count(dead_letters) == 1


@differs(
    rabbitmq="3.10 turns the older deaths round at each new one",
    reason="later versions keep the order; rounds are told from it",
)
def test_deaths_in_several_queues_are_told_newest_first(
    client: AmqpClient, new_name: NewName, dead_letters: str
) -> None:
    first, second, third = new_name(), new_name(), new_name()
    client.declare(third, arguments=to(dead_letters))
    client.declare(second, arguments=to(third) | {"x-message-ttl": 50})
    client.declare(first, arguments=to(second))
    die(client, first)
    reject(client, take(client, third, no_ack=False))
    message = take(client, dead_letters)
    assert deaths(message) == [
        (third, "rejected", 1),
        (second, "expired", 1),
        (first, "rejected", 1),
    ]


def test_the_first_death_stays_the_first(
    client: AmqpClient, new_name: NewName, dead_letters: str
) -> None:
    first, second = new_name(), new_name()
    client.declare(second, arguments=to(dead_letters) | {"x-message-ttl": 50})
    client.declare(first, arguments=to(second))
    client.call(Queue.Bind(queue=first, exchange="amq.fanout"), Queue.BindOk)
    client.publish(b"x", "key", "amq.fanout")
    reject(client, take(client, first, no_ack=False))
    message = take(client, dead_letters)
    assert deaths(message) == [(second, "expired", 1), (first, "rejected", 1)]
    assert [each["routing-keys"] for each in headers_of(message)["x-death"]] == [[second], ["key"]]
    assert [each["exchange"] for each in headers_of(message)["x-death"]] == ["", "amq.fanout"]
    assert headers_of(message)["x-first-death-queue"] == first
    assert headers_of(message)["x-first-death-reason"] == "rejected"
    assert headers_of(message)["x-first-death-exchange"] == "amq.fanout"


def test_a_death_that_was_there_before_counts_up_and_moves_to_the_front(
    client: AmqpClient, new_name: NewName
) -> None:
    work, wait = new_name(), new_name()
    client.declare(work, arguments=to(wait))
    client.declare(wait, arguments=to(work) | {"x-message-ttl": 20})
    die(client, work)
    for count in (1, 2, 3):
        message = take(client, work, no_ack=False)
        assert deaths(message) == [(wait, "expired", count), (work, "rejected", count)]
        assert headers_of(message)["x-first-death-queue"] == work
        reject(client, message)


def test_the_same_queue_with_another_reason_is_another_death(
    client: AmqpClient, new_name: NewName
) -> None:
    work, wait = new_name(), new_name()
    client.declare(work, arguments=to(wait))
    client.declare(wait, arguments=to(work))
    die(client, work)
    reject(client, take(client, wait, no_ack=False))
    message = take(client, work, no_ack=False)
    assert deaths(message) == [(wait, "rejected", 1), (work, "rejected", 1)]
    client.call(Queue.Delete(queue=wait), Queue.DeleteOk)
    client.declare(wait, arguments=to(work) | {"x-message-ttl": 20})
    reject(client, message)
    first, *others = deaths(take(client, work))
    assert first == (wait, "expired", 1)
    assert set(others) == {(work, "rejected", 2), (wait, "rejected", 1)}


@differs(
    rabbitmq="3.10 does not write them",
    reason="later versions do, and consumers read them",
)
def test_the_last_death_is_told_each_time(
    client: AmqpClient, new_name: NewName, dead_letters: str
) -> None:
    first, second = new_name(), new_name()
    client.declare(second, arguments=to(dead_letters) | {"x-message-ttl": 50})
    client.declare(first, arguments=to(second))
    die(client, first)
    seen = headers_of(take(client, dead_letters))
    assert seen.get("x-last-death-queue") == second
    assert seen.get("x-last-death-reason") == "expired"
    assert seen.get("x-last-death-exchange") == ""
    assert seen.get("x-first-death-queue") == first


def test_a_message_published_with_deaths_goes_on_counting(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    die(client, name)
    for count in (2, 3):
        client.publish(b"x", name, properties=take(client, dead_letters).properties)
        reject(client, take(client, name, no_ack=False))
        await_ready_count(client, dead_letters, 1)
        message = take(client, dead_letters, no_ack=False)
        assert deaths(message) == [(name, "rejected", count)]
        reject(client, message, requeue=True)


def test_headers_of_that_name_that_make_no_sense_are_replaced(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    given: Any = {"x-death": "nonsense"}
    die(client, name, Basic.Properties(headers=given))
    assert deaths(take(client, dead_letters)) == [(name, "rejected", 1)]


# What is kept


def test_all_properties_but_the_expiration_are_kept(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    given: dict[str, Any] = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        "message_type": "t",
        "user_id": "guest",
        "app_id": "a",
    }
    die(client, name, Basic.Properties(**given, expiration="3600000"), body=b"\x00body\xce")
    message = take(client, dead_letters)
    assert message.body == b"\x00body\xce"
    assert {key: getattr(message.properties, key) for key in given} == given
    assert message.properties.expiration is None
    assert not message.redelivered


def test_a_message_without_properties_gets_headers_only(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    die(client, name, Basic.Properties(), body=b"")
    message = take(client, dead_letters)
    assert message.body == b""
    assert message.properties.delivery_mode is None
    assert message.properties.content_type is None
    assert deaths(message) == [(name, "rejected", 1)]


def test_nobody_hears_of_a_dead_letter_that_goes_nowhere(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=to(f"{name}-none"))
    client.publish(b"x", name, mandatory=True)
    client.expect_confirmed()
    reject(client, take(client, name, no_ack=False))
    publish_all(client, name, b"next")
    assert take(client, name).body == b"next"


def test_a_dead_letter_is_not_confirmed_to_its_publisher(
    connect: Connect, name: str, dead_letters: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=to(dead_letters))
    publish_all(client, name, b"x")
    reject(client, take(client, name, no_ack=False))
    take(client, dead_letters)
    # The next answer is the next frame.
    client.call(Basic.Qos(prefetch_count=0), Basic.QosOk)
