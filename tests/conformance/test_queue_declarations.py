"""Queues are declared passively and again; which properties must be the same."""

import math
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import ours_only
from tests.conformance.queues import (
    LOCKED,
    Arguments,
    expect_declaration_refused,
    expect_refused,
    publish_all,
)
from tests.conformance.typed_fields import Typed, send_declaration

QUORUM: Arguments = {"x-queue-type": "quorum"}
OF_ANY_TYPE: list[tuple[str, Any, Any]] = [
    ("x-max-length", 100, 200),
    ("x-max-length-bytes", 100, 200),
    ("x-message-ttl", 100_000, 200_000),
    ("x-expires", 100_000, 200_000),
    ("x-dead-letter-exchange", "one", "other"),
    ("x-overflow", "drop-head", "reject-publish"),
]
OF_CLASSIC: list[tuple[str, Any, Any]] = [
    *OF_ANY_TYPE,
    ("x-max-priority", 5, 6),
    ("x-queue-mode", "lazy", "default"),
    ("x-queue-version", 1, 2),
]
OF_QUORUM: list[tuple[str, Any, Any]] = [
    *OF_ANY_TYPE,
    ("x-delivery-limit", 5, 6),
    ("x-quorum-initial-group-size", 1, 3),
    ("x-dead-letter-strategy", "at-most-once", "at-least-once"),
    ("x-queue-leader-locator", "balanced", "client-local"),
]


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def kind(value: object) -> str:
    """Name the type as which pamqp writes a value, as RabbitMQ calls it."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "longstr"
    assert isinstance(value, int)
    return "byte" if value < 128 else "short" if value < 32_768 else "signedint"


# Passive


def test_a_missing_queue_is_not_found(client: AmqpClient, name: str) -> None:
    client.send(Queue.Declare(queue=name, passive=True))
    expect_channel_error(client, 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", Queue.Declare)


def test_the_answer_counts_ready_messages_and_consumers(connect: Connect, name: str) -> None:
    client = connect(channels=2, confirms=True)
    client.declare(name)
    publish_all(client, name, b"1", b"2", b"3")
    client.get(name, no_ack=False)
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, 2)
    for tag in ("one", "other"):
        client.call(Basic.Consume(queue=name, consumer_tag=tag), Basic.ConsumeOk, 2)
        client.expect_delivery(2)
    publish_all(client, name, b"4")
    answer = client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk)
    assert (answer.queue, answer.message_count, answer.consumer_count) == (name, 1, 2)
    answer = client.call(Queue.Declare(queue=name, durable=True), Queue.DeclareOk)
    assert (answer.queue, answer.message_count, answer.consumer_count) == (name, 1, 2)


def test_a_passive_declaration_compares_nothing(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-max-length": 5})
    method = Queue.Declare(0, name, True, False, False, True, False, {"x-max-length": "six"})
    client.call(method, Queue.DeclareOk)


# Properties


def test_the_same_declaration_again_is_fine(client: AmqpClient, name: str) -> None:
    for _ in range(2):
        client.declare(name, auto_delete=True, arguments={"x-max-length": 5, "x-mine": "a"})


@pytest.mark.parametrize("durable", [True, False])
def test_durability_must_be_the_same(client: AmqpClient, name: str, durable: bool) -> None:
    client.declare(name, durable=durable)
    expect_declaration_refused(
        client,
        name,
        "inequivalent arg 'durable' for {}: "
        f"received '{text(not durable)}' but current is '{text(durable)}'",
        durable=not durable,
    )


@pytest.mark.parametrize("auto_delete", [True, False])
def test_auto_delete_must_be_the_same(client: AmqpClient, name: str, auto_delete: bool) -> None:
    client.declare(name, auto_delete=auto_delete)
    expect_declaration_refused(
        client,
        name,
        "inequivalent arg 'auto_delete' for {}: "
        f"received '{text(not auto_delete)}' but current is '{text(auto_delete)}'",
        auto_delete=not auto_delete,
    )


@pytest.mark.parametrize("exclusive", [True, False])
def test_exclusiveness_must_be_the_same(client: AmqpClient, name: str, exclusive: bool) -> None:
    client.declare(name, exclusive=exclusive)
    client.send(Queue.Declare(queue=name, durable=True, exclusive=not exclusive))
    expect_channel_error(client, 405, LOCKED.format(name), Queue.Declare)


def test_of_several_differences_the_properties_are_reported_first(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-max-length": 5})
    expect_declaration_refused(
        client,
        name,
        "inequivalent arg 'durable' for {}: received 'false' but current is 'true'",
        durable=False,
        auto_delete=True,
        arguments={"x-max-length": 6},
    )


# Arguments


@pytest.mark.parametrize(
    ("queue_type", "argument", "value", "other"),
    [
        *(pytest.param({}, *each, id=f"classic-{each[0]}") for each in OF_CLASSIC),
        *(pytest.param(QUORUM, *each, id=f"quorum-{each[0]}") for each in OF_QUORUM),
    ],
)
def test_an_argument_must_have_the_same_value(
    client: AmqpClient,
    name: str,
    queue_type: Arguments,
    argument: str,
    value: object,
    other: object,
) -> None:
    client.declare(name, arguments=queue_type | {argument: value})
    client.declare(name, arguments=queue_type | {argument: value})
    expect_declaration_refused(
        client,
        name,
        f"inequivalent arg '{argument}' for {{}}: "
        f"received '{text(other)}' but current is '{text(value)}'",
        arguments=queue_type | {argument: other},
    )
    expect_declaration_refused(
        client,
        name,
        f"inequivalent arg '{argument}' for {{}}: "
        f"received none but current is the value '{text(value)}' of type '{kind(value)}'",
        arguments=queue_type,
    )


@pytest.mark.parametrize(
    ("argument", "value"), [(each[0], each[1]) for each in OF_CLASSIC], ids=lambda each: str(each)
)
def test_an_argument_cannot_be_added(
    client: AmqpClient, name: str, argument: str, value: object
) -> None:
    client.declare(name)
    expect_declaration_refused(
        client,
        name,
        f"inequivalent arg '{argument}' for {{}}: "
        f"received the value '{text(value)}' of type '{kind(value)}' but current is none",
        arguments={argument: value},
    )


def test_the_dead_letter_routing_key_must_be_the_same(client: AmqpClient, name: str) -> None:
    exchange = {"x-dead-letter-exchange": ""}
    client.declare(name, arguments=exchange | {"x-dead-letter-routing-key": "one"})
    expect_declaration_refused(
        client,
        name,
        "inequivalent arg 'x-dead-letter-routing-key' for {}: "
        "received 'other' but current is 'one'",
        arguments=exchange | {"x-dead-letter-routing-key": "other"},
    )


@pytest.mark.parametrize("later", "bBsuIil")
@pytest.mark.parametrize("first", "bl")
def test_an_integer_is_the_same_in_any_width(
    client: AmqpClient, name: str, first: str, later: str
) -> None:
    for each in (first, later):
        send_declaration(client, name, {"x-max-length": Typed(each, 10)})
        client.expect(Queue.DeclareOk)


@ours_only("Erlang has no such number, and RabbitMQ closes the connection")
@pytest.mark.parametrize("letter", "fd")
def test_what_is_no_number_is_the_same_again(client: AmqpClient, name: str, letter: str) -> None:
    for _ in range(2):
        send_declaration(client, name, {"x-queue-master-locator": Typed(letter, math.nan)})
        client.expect(Queue.DeclareOk)


@pytest.mark.parametrize(
    ("letter", "word"),
    [
        ("b", "byte"),
        ("B", "unsignedbyte"),
        ("s", "short"),
        ("u", "unsignedshort"),
        ("I", "signedint"),
        ("i", "unsignedint"),
        ("l", "long"),
    ],
)
def test_the_width_of_an_integer_has_a_name(
    client: AmqpClient, name: str, letter: str, word: str
) -> None:
    client.declare(name)
    send_declaration(client, name, {"x-max-length": Typed(letter, 10)})
    expect_refused(
        client,
        f"inequivalent arg 'x-max-length' for queue '{name}' in vhost '/': "
        f"received the value '10' of type '{word}' but current is none",
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(Typed("d", 10.0), "10.0"), (Typed("S", "10"), "10")], ids=["10.0", "'10'"]
)
def test_an_integer_is_no_other_type_of_the_same_look(
    client: AmqpClient, name: str, value: Typed, shown: str
) -> None:
    client.declare(name, arguments={"x-max-length": 10})
    send_declaration(client, name, {"x-max-length": value})
    expect_refused(
        client,
        f"inequivalent arg 'x-max-length' for queue '{name}' in vhost '/': "
        f"received '{shown}' but current is '10'",
    )


def test_a_queue_without_a_type_is_classic(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.declare(name, arguments={"x-queue-type": "classic"})


def test_a_classic_queue_may_be_declared_without_a_type(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-queue-type": "classic"})
    client.declare(name)


@pytest.mark.parametrize(
    ("first", "later", "difference"),
    [
        ({}, QUORUM, "received the value 'quorum' of type 'longstr' but current is none"),
        (QUORUM, {}, "received none but current is the value 'quorum' of type 'longstr'"),
        (
            {"x-queue-type": "classic"},
            QUORUM,
            "received 'quorum' but current is 'classic'",
        ),
    ],
    ids=["none-quorum", "quorum-none", "classic-quorum"],
)
def test_the_type_must_be_the_same(
    client: AmqpClient, name: str, first: Arguments, later: Arguments, difference: str
) -> None:
    client.declare(name, arguments=first)
    expect_declaration_refused(
        client, name, f"inequivalent arg 'x-queue-type' for {{}}: {difference}", arguments=later
    )


@pytest.mark.parametrize("argument", ["x-mine", "x-consumer-timeout", "x-quorum-target-group-size"])
@pytest.mark.parametrize("queue_type", [{}, QUORUM], ids=["classic", "quorum"])
def test_arguments_that_mean_nothing_to_the_queue_are_not_compared(
    client: AmqpClient, name: str, queue_type: Arguments, argument: str
) -> None:
    client.declare(name, arguments=queue_type | {argument: 1})
    client.declare(name, arguments=queue_type | {argument: 2})
    client.declare(name, arguments=queue_type)
