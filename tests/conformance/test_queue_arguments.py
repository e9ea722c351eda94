"""Which values the arguments of a queue may have, and how others are refused."""

from collections.abc import Mapping

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.dead_letters import deaths, die, to
from tests.conformance.marks import differs_from_3_10
from tests.conformance.queues import (
    Arguments,
    await_ready_count,
    expect_compared,
    expect_declaration_refused,
    expect_refused,
    expect_usable,
    publish_all,
    reject,
    take,
)
from tests.conformance.typed_fields import Typed, send_declaration
from tests.conformance.wrong_types import NOT_INTEGERS, NOT_STRINGS, expect_types_refused

TYPES = ("classic", "quorum")
MILLISECONDS_MAX = 315_360_000_000
INTEGERS = {
    "classic": (
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-queue-version",
    ),
    "quorum": (
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
    ),
}
STRINGS = {
    "classic": ("x-overflow", "x-queue-mode"),
    "quorum": ("x-overflow", "x-dead-letter-strategy", "x-queue-leader-locator"),
}
NOT_OF_TYPE = {
    "classic": (
        "x-delivery-limit",
        "x-quorum-initial-group-size",
        "x-dead-letter-strategy",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
    ),
    "quorum": (
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
    ),
}


def of_type(queue_type: str) -> Arguments:
    return {"x-queue-type": queue_type}


def pairs(table: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(queue_type, argument) for queue_type in TYPES for argument in table[queue_type]]


def expect_value_refused(
    client: AmqpClient, name: str, argument: str, value: object, said: str, queue_type: str
) -> None:
    expect_declaration_refused(
        client,
        name,
        f"invalid arg '{argument}' for {{}}: {said}",
        arguments=of_type(queue_type) | {argument: value},
    )


# Integers


@pytest.mark.parametrize(("queue_type", "argument"), pairs(INTEGERS))
def test_an_integer_must_be_one(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    expect_types_refused(
        client, name, argument, queue_type, NOT_INTEGERS, '"expected integer, got {}"'
    )


@pytest.mark.parametrize("queue_type", TYPES)
@pytest.mark.parametrize("width", "bBsuIil")
def test_an_integer_may_have_any_width(
    connect: Connect, name: str, width: str, queue_type: str
) -> None:
    client = connect(confirms=True)
    arguments = {"x-queue-type": Typed("S", queue_type), "x-max-length": Typed(width, 2)}
    send_declaration(client, name, arguments)
    client.expect(Queue.DeclareOk)
    publish_all(client, name, b"0", b"1", b"2", b"3")
    await_ready_count(client, name, 2)
    assert [take(client, name).body for _ in range(2)] == [b"2", b"3"]


@pytest.mark.parametrize(("queue_type", "argument"), pairs(INTEGERS))
def test_an_integer_must_not_be_negative(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    for value in (-1, -(2**40)):
        expect_value_refused(
            client, name, argument, value, f"{{{{value_negative,{value}}}}}", queue_type
        )


@pytest.mark.parametrize(
    ("queue_type", "argument"),
    [
        ("classic", "x-expires"),
        ("quorum", "x-expires"),
        ("quorum", "x-quorum-initial-group-size"),
    ],
)
def test_some_integers_must_not_be_zero(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    expect_value_refused(client, name, argument, 0, "{{value_zero,0}}", queue_type)


@pytest.mark.parametrize("queue_type", TYPES)
@pytest.mark.parametrize("argument", ["x-message-ttl", "x-max-length", "x-max-length-bytes"])
def test_other_integers_may_be_zero(
    connect: Connect, name: str, queue_type: str, argument: str
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=of_type(queue_type) | {argument: 0})
    publish_all(client, name, b"too long", b"or too late")
    await_ready_count(client, name, 0)
    assert client.get(name) is None


@pytest.mark.parametrize("queue_type", TYPES)
@pytest.mark.parametrize("argument", ["x-message-ttl", "x-expires"])
def test_no_time_is_longer_than_ten_years(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    for value in (MILLISECONDS_MAX + 1, 2**63 - 1):
        said = f"{{{{value_too_large,{value}}}}}"
        expect_value_refused(client, name, argument, value, said, queue_type)
    client.declare(name, arguments=of_type(queue_type) | {argument: MILLISECONDS_MAX})
    expect_usable(client, name)


@pytest.mark.parametrize("queue_type", TYPES)
@pytest.mark.parametrize("argument", ["x-max-length", "x-max-length-bytes"])
def test_a_length_has_no_upper_limit(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    client.declare(name, arguments=of_type(queue_type) | {argument: 2**63 - 1})
    expect_usable(client, name)


def test_there_are_at_most_255_priorities_above_none(client: AmqpClient, name: str) -> None:
    for value in (256, 2**40):
        said = f"{{{{max_value_exceeded,{value}}}}}"
        expect_value_refused(client, name, "x-max-priority", value, said, "classic")
    client.declare(name, arguments={"x-max-priority": 255})
    assert order_by_priority(client, name) == [255, 254, 1, 0]


def test_no_priorities_at_all_may_be_asked_for(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-max-priority": 0})
    assert order_by_priority(client, name) == [1, 255, 0, 254]


def order_by_priority(client: AmqpClient, name: str) -> list[int | None]:
    """Publish messages of some priorities, and return those of the messages as they come."""
    for priority in (1, 255, 0, 254):
        client.publish(b"x", name, properties=Basic.Properties(priority=priority))
    await_ready_count(client, name, 4)
    return [take(client, name).properties.priority for _ in range(4)]


# Words


@pytest.mark.parametrize(("queue_type", "argument"), pairs(STRINGS))
def test_the_value_must_be_a_string(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    expect_types_refused(
        client, name, argument, queue_type, NOT_STRINGS, "{{unacceptable_type,{}}}"
    )


@pytest.mark.parametrize("queue_type", TYPES)
def test_overflow_has_three_names(client: AmqpClient, name: str, queue_type: str) -> None:
    for value in ("", "drop", "reject"):
        expect_value_refused(client, name, "x-overflow", value, "invalid_overflow", queue_type)


@pytest.mark.parametrize(
    ("value", "last_is_refused", "kept", "dead"),
    [
        ("drop-head", False, [b"1", b"2"], [b"0"]),
        ("reject-publish", True, [b"0", b"1"], []),
        ("reject-publish-dlx", True, [b"0", b"1"], [b"2"]),
    ],
)
def test_each_overflow_drops_or_refuses_its_messages(
    connect: Connect,
    name: str,
    dead_letters: str,
    value: str,
    last_is_refused: bool,
    kept: list[bytes],
    dead: list[bytes],
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=to(dead_letters) | {"x-overflow": value, "x-max-length": 2})
    for body in (b"0", b"1"):
        client.publish(body, name)
        client.expect(Basic.Ack)
    client.publish(b"2", name)
    client.expect(Basic.Nack if last_is_refused else Basic.Ack)
    await_ready_count(client, dead_letters, len(dead))
    for queue, bodies in ((name, kept), (dead_letters, dead)):
        assert [take(client, queue).body for _ in bodies] == bodies
        assert client.get(queue) is None


def test_a_queue_type_must_be_known(client: AmqpClient, name: str) -> None:
    for value in ("", "lazy", "Classic"):
        expect_declaration_refused(
            client,
            name,
            f"invalid arg 'x-queue-type' for {{}}: \"unsupported queue type '{value}'\"",
            arguments={"x-queue-type": value},
        )


def test_a_queue_type_must_be_a_string(client: AmqpClient, name: str) -> None:
    for value, word in NOT_STRINGS:
        send_declaration(client, name, {"x-queue-type": value})
        expect_refused(
            client,
            f"invalid arg 'x-queue-type' for queue '{name}' in vhost '/': "
            f"{{unacceptable_type,{word}}}",
        )


@pytest.mark.parametrize(("value", "other"), [("lazy", "default"), ("default", "lazy")])
def test_a_queue_mode_is_kept(client: AmqpClient, name: str, value: str, other: str) -> None:
    expect_compared(client, name, {"x-queue-mode": value}, "x-queue-mode", other)


def test_a_queue_mode_must_be_known(client: AmqpClient, name: str) -> None:
    for value in ("", "eager"):
        said = f"\"unsupported queue mode '{value}'\""
        expect_value_refused(client, name, "x-queue-mode", value, said, "classic")


@pytest.mark.parametrize(("value", "other"), [(1, 2), (2, 1)])
def test_a_queue_version_is_kept(client: AmqpClient, name: str, value: int, other: int) -> None:
    expect_compared(client, name, {"x-queue-version": value}, "x-queue-version", other)


def test_a_queue_version_must_be_known(client: AmqpClient, name: str) -> None:
    for value in (0, 3, 2**40):
        said = f"\"unsupported queue version '{value}'\""
        expect_value_refused(client, name, "x-queue-version", value, said, "classic")


@pytest.mark.parametrize("value", ["client-local", "min-masters", "random"])
def test_a_master_locator_of_a_classic_queue_is_kept(
    client: AmqpClient, name: str, value: str
) -> None:
    argument = "x-queue-master-locator"
    expect_compared(client, name, {argument: value}, argument, "another")


@pytest.mark.parametrize("value", ["client-local", "balanced", "random", "least-leaders"])
def test_a_leader_locator_of_a_quorum_queue_is_kept(
    client: AmqpClient, name: str, value: str
) -> None:
    argument = "x-queue-leader-locator"
    other = "random" if value != "random" else "balanced"
    expect_compared(client, name, of_type("quorum") | {argument: value}, argument, other)


def test_a_leader_locator_must_be_known(client: AmqpClient, name: str) -> None:
    said = "invalid_queue_locator_arg"
    expect_value_refused(client, name, "x-queue-leader-locator", "nearest", said, "quorum")


@differs_from_3_10("refuses it (406)")
@pytest.mark.parametrize("value", ["client-local", "balanced"])
def test_a_leader_locator_of_a_classic_queue_is_kept(
    client: AmqpClient, name: str, value: str
) -> None:
    argument = "x-queue-leader-locator"
    expect_compared(client, name, {argument: value}, argument, "random")


@pytest.mark.parametrize("value", ["at-most-once", "at-least-once"])
def test_by_either_strategy_dead_letters_arrive(
    client: AmqpClient, name: str, dead_letters: str, value: str
) -> None:
    argument, other = "x-dead-letter-strategy", {"at-most-once", "at-least-once"} - {value}
    arguments = of_type("quorum") | to(dead_letters)
    arguments |= {argument: value, "x-overflow": "reject-publish"}
    expect_compared(client, name, arguments, argument, other.pop())
    die(client, name)
    assert deaths(take(client, dead_letters)) == [(name, "rejected", 1)]


def test_a_dead_letter_strategy_must_be_known(client: AmqpClient, name: str) -> None:
    said = "invalid_dlx_strategy"
    expect_value_refused(client, name, "x-dead-letter-strategy", "sometimes", said, "quorum")


# Dead letters


@pytest.mark.parametrize("queue_type", TYPES)
def test_a_dead_letter_exchange_must_be_a_string(
    client: AmqpClient, name: str, queue_type: str
) -> None:
    for value, word in NOT_STRINGS:
        arguments = {"x-queue-type": Typed("S", queue_type), "x-dead-letter-exchange": value}
        send_declaration(client, name, arguments)
        expect_refused(
            client,
            f"invalid type '{word}' for arg 'x-dead-letter-exchange' "
            f"in queue '{name}' in vhost '/'",
        )


@pytest.mark.parametrize("queue_type", TYPES)
def test_a_dead_letter_routing_key_must_be_a_string(
    client: AmqpClient, name: str, queue_type: str
) -> None:
    for value, word in NOT_STRINGS:
        send_declaration(
            client,
            name,
            {
                "x-queue-type": Typed("S", queue_type),
                "x-dead-letter-exchange": Typed("S", ""),
                "x-dead-letter-routing-key": value,
            },
        )
        expect_refused(
            client,
            f"invalid arg 'x-dead-letter-routing-key' for queue '{name}' in vhost '/': "
            f"{{unacceptable_type,{word}}}",
        )


@pytest.mark.parametrize("queue_type", TYPES)
def test_a_dead_letter_routing_key_needs_an_exchange(
    client: AmqpClient, name: str, queue_type: str
) -> None:
    said = "routing_key_but_no_dlx_defined"
    expect_value_refused(client, name, "x-dead-letter-routing-key", "key", said, queue_type)


def test_a_dead_letter_exchange_need_not_exist(client: AmqpClient, name: str) -> None:
    arguments = {"x-dead-letter-exchange": f"{name}-none", "x-dead-letter-routing-key": ""}
    client.declare(name, arguments=arguments)
    die(client, name)
    # The dead letter is gone, and neither the queue nor the channel minds.
    await_ready_count(client, name, 0)
    expect_usable(client, name)


# Types of queues


@pytest.mark.parametrize(("queue_type", "argument"), pairs(NOT_OF_TYPE))
def test_an_argument_of_another_type_of_queue_is_refused_whatever_its_value(
    client: AmqpClient, name: str, queue_type: str, argument: str
) -> None:
    for value in (1, -1, "a"):
        expect_declaration_refused(
            client,
            name,
            f"invalid arg '{argument}' for {{}} of queue type rabbit_{queue_type}_queue",
            arguments=of_type(queue_type) | {argument: value},
        )


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
        ({"durable": False, "exclusive": True, "auto_delete": True}, "auto-delete"),
        ({"durable": False, "exclusive": True}, "exclusive-owner"),
    ],
    ids=["transient", "exclusive", "auto-delete", "all", "transient-exclusive"],
)
def test_a_quorum_queue_has_one_set_of_properties(
    client: AmqpClient, name: str, properties: dict[str, bool], word: str
) -> None:
    expect_declaration_refused(
        client,
        name,
        f"invalid property '{word}' for {{}}",
        arguments={"x-queue-type": "quorum"},
        **properties,
    )
    # The broker reports an invalid argument first.
    expect_declaration_refused(
        client,
        name,
        "invalid arg 'x-max-priority' for {} of queue type rabbit_quorum_queue",
        arguments={"x-queue-type": "quorum", "x-max-priority": 1},
        **properties,
    )


@pytest.mark.parametrize(
    ("argument", "value", "other"),
    [
        ("x-quorum-initial-group-size", 3, 5),
        ("x-max-in-memory-length", 0, 1),
        ("x-max-in-memory-bytes", 0, 1),
    ],
)
def test_a_size_of_a_quorum_queue_is_kept(
    client: AmqpClient, name: str, argument: str, value: int, other: int
) -> None:
    expect_compared(client, name, of_type("quorum") | {argument: value}, argument, other)


@pytest.mark.parametrize(("value", "returns"), [(0, 0), (5, 5), (2**40, 8)])
def test_a_delivery_limit_may_be_any_integer(
    client: AmqpClient, name: str, dead_letters: str, value: int, returns: int
) -> None:
    arguments = of_type("quorum") | to(dead_letters) | {"x-delivery-limit": value}
    client.declare(name, arguments=arguments)
    client.publish(b"x", name)
    for _ in range(returns):
        reject(client, take(client, name, no_ack=False), requeue=True)
    last = take(client, name, no_ack=False)
    assert client.ready_count(dead_letters) == 0
    reject(client, last, requeue=True)
    dies = value == returns
    await_ready_count(client, dead_letters, int(dies))
    await_ready_count(client, name, int(not dies))


def test_a_negative_delivery_limit_is_taken(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=of_type("quorum") | {"x-delivery-limit": -1})
    expect_usable(client, name)


@pytest.mark.parametrize("value", ["5", True, None])
def test_a_delivery_limit_of_another_type_is_no_limit(
    client: AmqpClient, name: str, value: object
) -> None:
    client.declare(name, arguments={**of_type("quorum"), "x-delivery-limit": value})
    client.publish(b"x", name)
    for _ in range(25):
        reject(client, take(client, name, no_ack=False), requeue=True)
    await_ready_count(client, name, 1)


@pytest.mark.parametrize("queue_type", TYPES)
@pytest.mark.parametrize("value", ["5", True, None])
def test_a_consumer_timeout_of_another_type_is_ignored(
    client: AmqpClient, name: str, queue_type: str, value: object
) -> None:
    client.declare(name, arguments={**of_type(queue_type), "x-consumer-timeout": value})
    expect_usable(client, name)


@pytest.mark.parametrize("queue_type", TYPES)
def test_unknown_arguments_are_taken(client: AmqpClient, name: str, queue_type: str) -> None:
    arguments = {
        "x-mine": {"a": [1, None]},
        "mine": 5.0,
        "x-consumer-timeout": 60_000,
        "x-quorum-target-group-size": -1,
    }
    client.declare(name, arguments=of_type(queue_type) | arguments)
    expect_usable(client, name)
    client.declare(name, arguments=of_type(queue_type))


@pytest.mark.parametrize(
    ("arguments", "argument", "said"),
    [
        ({"x-max-length": -1, "x-expires": 0}, "x-expires", "{{value_zero,0}}"),
        (
            {"x-overflow": "?", "x-max-length-bytes": -1},
            "x-max-length-bytes",
            "{{value_negative,-1}}",
        ),
        (
            {"x-max-length": -1, "x-queue-type": "?"},
            "x-queue-type",
            "\"unsupported queue type '?'\"",
        ),
        ({"x-delivery-limit": 1, "x-max-length": -1}, "x-max-length", "{{value_negative,-1}}"),
    ],
)
def test_of_two_faults_one_is_reported(
    client: AmqpClient, name: str, arguments: Arguments, argument: str, said: str
) -> None:
    text = f"invalid arg '{argument}' for {{}}: {said}"
    expect_declaration_refused(client, name, text, arguments=arguments)


def test_of_two_arguments_of_other_types_of_queues_one_is_reported(
    client: AmqpClient, name: str
) -> None:
    expect_declaration_refused(
        client,
        name,
        "invalid arg 'x-max-priority' for {} of queue type rabbit_quorum_queue",
        arguments=of_type("quorum") | {"x-queue-mode": "", "x-max-priority": 1},
    )


def test_a_dead_letter_exchange_is_checked_before_the_type_of_the_queue(
    client: AmqpClient, name: str
) -> None:
    expect_declaration_refused(
        client,
        name,
        "invalid type 'bool' for arg 'x-dead-letter-exchange' in {}",
        arguments={"x-dead-letter-exchange": True, "x-queue-type": "?"},
    )


def test_a_reserved_name_is_refused_before_the_arguments_are_checked(client: AmqpClient) -> None:
    client.send(Queue.Declare(queue="amq.mine", arguments={"x-dead-letter-exchange": 1}))
    client.expect_channel_close(403)


def test_a_refused_declaration_leaves_nothing_behind(client: AmqpClient, name: str) -> None:
    said = "{{value_negative,-1}}"
    expect_value_refused(client, name, "x-max-length", -1, said, "classic")
    client.send(Queue.Declare(queue=name, passive=True))
    client.expect_channel_close(404)


def test_an_existing_queue_is_compared_before_values_are_checked(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-max-length": 5})
    expect_declaration_refused(
        client,
        name,
        "inequivalent arg 'x-max-length' for {}: received '-5' but current is '5'",
        arguments={"x-max-length": -5},
    )
