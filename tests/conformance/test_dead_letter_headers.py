"""The broker writes the history of a dead letter into its headers."""

import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.dead_letters import deaths, die, to
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.queues import (
    await_ready_count,
    headers_of,
    outlive,
    publish_all,
    reject,
    take,
)
from tests.conformance.typed_fields import Typed, get_typed_headers


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


FIRST_ORDER = ["count", "reason", "queue", "time", "exchange", "routing-keys"]
LATER_ORDER = sorted(FIRST_ORDER)
KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


def orders(client: AmqpClient, queue: str) -> list[list[str]]:
    """Take a dead letter, and return the names of each death's fields as they stand there."""
    await_ready_count(client, queue, 1)
    return [list(death.value) for death in get_typed_headers(client, queue)["x-death"].value]


@KINDS
def test_the_fields_of_the_first_death_have_an_order(
    client: AmqpClient, name: str, dead_letters: str, kind: str
) -> None:
    client.declare(name, arguments=to(dead_letters) | {"x-queue-type": kind})
    die(client, name)
    assert orders(client, dead_letters) == [FIRST_ORDER]
    die(client, name, Basic.Properties(expiration="3600000", headers={"mine": 1}))
    assert orders(client, dead_letters) == [[*FIRST_ORDER, "original-expiration"]]


@KINDS
def test_the_fields_of_later_deaths_are_in_the_order_of_their_names(
    client: AmqpClient, new_name: NewName, dead_letters: str, kind: str
) -> None:
    first, second = new_name(), new_name()
    client.declare(second, arguments=to(dead_letters) | {"x-queue-type": kind})
    client.declare(first, arguments=to(second) | {"x-queue-type": kind})
    die(client, first, Basic.Properties(expiration="3600000"))
    reject(client, take(client, second, no_ack=False))
    assert orders(client, dead_letters) == [LATER_ORDER, [*FIRST_ORDER, "original-expiration"]]


@KINDS
def test_the_fields_of_a_death_that_comes_again_are_in_the_order_of_their_names(
    client: AmqpClient, new_name: NewName, kind: str
) -> None:
    first, second = new_name(), new_name()
    client.declare(second, arguments=to(first) | {"x-queue-type": kind})
    client.declare(first, arguments=to(second) | {"x-queue-type": kind})
    die(client, first, Basic.Properties(expiration="3600000"))
    for queue in (second, first, second):
        reject(client, take(client, queue, no_ack=False))
    assert orders(client, first) == [LATER_ORDER, sorted([*LATER_ORDER, "original-expiration"])]


def test_an_invalid_x_death_counts_as_no_death(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    die(client, name, Basic.Properties(headers={"x-death": "no list"}))
    assert orders(client, dead_letters) == [FIRST_ORDER]
    nothing: Any = []
    die(client, name, Basic.Properties(headers={"x-death": nothing}))
    assert orders(client, dead_letters) == [LATER_ORDER]


def test_the_time_of_a_death_is_in_seconds(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    die(client, name)
    died = headers_of(take(client, dead_letters))["x-death"][0]["time"]
    assert abs((died - datetime.now(UTC)).total_seconds()) < 60


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
    client: AmqpClient, name: str, dead_letters: str, new_name: NewName
) -> None:
    client.declare(name, arguments=to(dead_letters))
    client.publish(b"x", name, properties=Basic.Properties(expiration="50"))
    await_ready_count(client, dead_letters, 1)
    outlive(client, new_name(), 50)
    assert client.ready_count(dead_letters) == 1


@differs_from_3_10("turns the older deaths round at each new one")
def test_deaths_in_several_queues_are_listed_newest_first(
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


@differs(
    rabbitmq="4 removes deaths that a client has published; 3.10 counts such as these up to one",
    reason="only RabbitMQ before 3.5 wrote tables without a count",
)
def test_deaths_without_a_count_stay_as_they_are(
    client: AmqpClient, name: str, dead_letters: str
) -> None:
    client.declare(name, arguments=to(dead_letters))
    old: Any = [{"queue": "old", "reason": "expired", "exchange": ""}] * 2
    die(client, name, Basic.Properties(headers={"x-death": old}))
    newest, *others = headers_of(take(client, dead_letters))["x-death"]
    assert (newest["queue"], newest["count"]) == (name, 1)
    assert others == old


def test_a_repeated_death_counts_up_and_moves_to_the_front(
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


@differs_from_3_10("does not write them")
def test_each_death_writes_the_headers_of_the_last_death(
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


@differs(
    rabbitmq="4 counts from one again",
    reason="as RabbitMQ 3: clients publish again with all headers, and stop at a count",
    since=4,
)
def test_a_message_published_with_deaths_continues_their_counts(
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


DEATH: dict[str, Any] = {
    "count": 1,
    "reason": "rejected",
    "queue": "old",
    "time": datetime(2020, 1, 2, tzinfo=UTC),
    "exchange": "",
    "routing-keys": ["old"],
}
NO_DEATHS: dict[str, Any] = {
    "text": "text",
    "empty text": "",
    "octets": bytearray(b"\xff\x00"),
    "number": 7,
    "large number": 2**62,
    "fraction": 1.5,
    "decimal": Decimal("1.25"),
    "truth": True,
    "time": datetime(2020, 1, 2, tzinfo=UTC),
    "nothing": None,
    "table": {},
    "death that is not in a list": DEATH,
    "empty list": [],
    "list of an empty table": [{}],
    "list of other tables": [{"a": 1}, {"b": {"c": []}}],
}
NO_FIELDS: dict[str, Any] = {
    "count is negative": {"count": -1},
    "count is nothing": {"count": None},
    "reason is a number": {"reason": 5},
    "reason is unknown": {"reason": "boredom"},
    "reason is a list": {"reason": ["rejected"]},
    "queue is a number": {"queue": 5},
    "queue is a table": {"queue": {"name": "old"}},
    "queue is nothing": {"queue": None},
    "time is text": {"time": "yesterday"},
    "exchange is a list": {"exchange": [""]},
    "keys are text": {"routing-keys": "old"},
    "keys are numbers": {"routing-keys": [1, 2]},
    "keys are nothing": {"routing-keys": None},
    "original expiration is a table": {"original-expiration": {}},
}


def expect_death(client: AmqpClient, queue: str, dead_letters: str, x_death: object) -> Any:  # noqa: ANN401
    """Let a message die that was published with any `x-death`; return what is there then."""
    headers: Any = {"x-death": x_death, "mine": "kept"}
    die(client, queue, Basic.Properties(headers=headers), b"body")
    message = take(client, dead_letters)
    assert message.body == b"body"
    seen = headers_of(message)
    assert seen["mine"] == "kept"
    newest = seen["x-death"][0]
    assert (newest["queue"], newest["reason"], newest["count"]) == (queue, "rejected", 1)
    # The queue and its messages are as before.
    die(client, queue, body=b"next")
    assert take(client, dead_letters).body == b"next"
    return seen["x-death"]


@pytest.mark.parametrize("x_death", NO_DEATHS.values(), ids=NO_DEATHS)
def test_a_message_with_any_other_x_death_is_taken_and_dies(
    client: AmqpClient,
    name: str,
    dead_letters: str,
    x_death: Any,  # noqa: ANN401
) -> None:
    client.declare(name, arguments=to(dead_letters))
    expect_death(client, name, dead_letters, x_death)


@pytest.mark.parametrize("fields", NO_FIELDS.values(), ids=NO_FIELDS)
def test_a_message_with_a_death_of_other_fields_is_taken_and_dies(
    client: AmqpClient, name: str, dead_letters: str, fields: dict[str, Any]
) -> None:
    client.declare(name, arguments=to(dead_letters))
    expect_death(client, name, dead_letters, [DEATH | fields])
    # Also where it says that it is of this queue.
    same = [DEATH | {"queue": name} | fields, DEATH]
    headers: Any = {"x-death": same}
    die(client, name, Basic.Properties(headers=headers), b"body")
    message = take(client, dead_letters)
    assert message.body == b"body"
    assert headers_of(message)["x-death"][0]["queue"] == name


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


def test_an_unroutable_dead_letter_is_dropped_without_a_return(connect: Connect, name: str) -> None:
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
