"""The exchange types that RabbitMQ has as plugins: x-consistent-hash and x-random."""

from collections import Counter
from hashlib import blake2b
from random import Random
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server import pick_shard
from appendlog.sharding import pick_bucket
from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs, differs_from_3_10, ours_only
from tests.conformance.routing import (
    bind_exchange,
    bind_queue,
    declare_exchange,
    drain,
    expect_unroutable,
    reached,
)

HASH, RANDOM = "x-consistent-hash", "x-random"
MESSAGES = 400


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 has confirms."""
    return connect(confirms=True)


def spread(client: AmqpClient, queues: list[str], exchange: str, **varied: str) -> Counter[str]:
    """Publish many messages together, each with another value; return how many each queue got.

    Args:
        client: With confirms on.
        queues: Empty ones; left so.
        exchange: Where to publish.
        varied: Which of `key`, `header` (its name) or a property gets the value.
    """
    octets: list[bytes] = []
    for number in range(MESSAGES):
        key, properties = "fixed", Basic.Properties()
        if "key" in varied:
            key = f"key-{number}"
        elif "header" in varied:
            properties.headers = {varied["header"]: f"value-{number}"}
        else:
            setattr(properties, varied["property"], f"value-{number}")
        method = Basic.Publish(exchange=exchange, routing_key=key)
        octets.append(client.publish_octets(method, b"", properties))
    client.send_raw(b"".join(octets))
    client.published[1] += MESSAGES
    client.expect_confirmed()
    return Counter(drain(client, queues))


def hash_exchange(
    client: AmqpClient, new_name: NewName, weights: list[int], **arguments: str
) -> Any:  # noqa: ANN401
    """Declare a consistent-hash exchange with a queue for each weight; return all their names."""
    exchange, queues = new_name(), [new_name() for _ in weights]
    named: Any = {name.replace("_", "-"): value for name, value in arguments.items()}
    declare_exchange(client, exchange, HASH, named)
    for queue, weight in zip(queues, weights, strict=True):
        client.declare(queue)
        bind_queue(client, queue, exchange, str(weight))
    return exchange, queues


def test_each_message_goes_to_one_queue(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10, 10])
    counts = spread(client, queues, exchange, key="key")
    assert counts.total() == MESSAGES
    assert len(counts) == 3


def test_equal_keys_go_to_the_same_queue(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10, 10])
    for key in ("a", "b", "c", ""):
        once = reached(client, queues, exchange, key)
        assert len(once) == 1
        for _ in range(3):
            assert reached(client, queues, exchange, key) == once


def test_weights_are_shares(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 90])
    counts = spread(client, queues, exchange, key="key")
    assert counts.total() == MESSAGES
    assert 0 < counts[queues[0]] < MESSAGES * 0.25


def test_a_header_may_be_hashed(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10], hash_header="customer")
    counts = spread(client, queues, exchange, header="customer")
    assert counts.total() == MESSAGES
    assert len(counts) == 2
    assert len(spread(client, queues, exchange, key="key")) == 1


@ours_only("LavinMQ's name for it")
def test_a_header_may_be_named_as_in_lavinmq(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10], x_hash_on="customer")
    assert len(spread(client, queues, exchange, header="customer")) == 2
    assert len(spread(client, queues, exchange, key="key")) == 1


@pytest.mark.parametrize("hashed", ["message_id", "correlation_id"])
def test_a_property_may_be_hashed(client: AmqpClient, new_name: NewName, hashed: str) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10], hash_property=hashed)
    counts = spread(client, queues, exchange, property=hashed)
    assert counts.total() == MESSAGES
    assert len(counts) == 2
    assert len(spread(client, queues, exchange, key="key")) == 1


def test_a_key_goes_to_the_shard_that_pick_shard_names(
    client: AmqpClient, new_name: NewName
) -> None:
    source = Random(7)
    for count in (1, 2, 5, 16):
        exchange, queues = hash_exchange(client, new_name, [1] * count)
        keys = ["", "key", "k\u00e4se", "x" * 255]
        keys += ["".join(source.choices("abcdef0123", k=source.randrange(40))) for _ in range(40)]
        for key in keys:
            assert reached(client, queues, exchange, key) == [queues[pick_shard(key, count)]]


@pytest.mark.parametrize("hashed", ["message_id", "correlation_id"])
def test_a_property_goes_to_the_shard_of_its_text(
    client: AmqpClient, new_name: NewName, hashed: str
) -> None:
    exchange, queues = hash_exchange(client, new_name, [1] * 8, hash_property=hashed)
    for text in ("a", "order-17", "0123456789abcdef"):
        client.publish(b"", "key", exchange, properties=Basic.Properties(**{hashed: text}))  # type: ignore[arg-type]
        client.expect_confirmed()
        assert drain(client, queues) == [queues[pick_shard(text, 8)]]


@differs_from_3_10("hashes the header's value together with its type")
def test_a_header_goes_to_the_shard_of_its_text(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [1] * 64, hash_header="customer")
    for number in range(4):
        text = f"customer-{number}"
        expected = [queues[pick_shard(text, 64)]]
        assert reached(client, queues, exchange, headers={"customer": text}) == expected


@differs_from_3_10("hashes the header's value together with its type")
@pytest.mark.parametrize("value", [17, -128, 2**40 + 5, True, False, 1.5])
def test_a_header_may_be_a_number_or_a_truth(
    client: AmqpClient, new_name: NewName, value: float
) -> None:
    exchange, queues = hash_exchange(client, new_name, [1] * 64, hash_header="customer")
    expected = [queues[pick_bucket(value, 64)]]
    assert reached(client, queues, exchange, headers={"customer": value}) == expected


@pytest.mark.parametrize("arguments", [{"hash_header": "a"}, {"hash_property": "message_id"}])
def test_messages_without_the_hashed_header_go_to_one_queue(
    client: AmqpClient, new_name: NewName, arguments: dict[str, str]
) -> None:
    exchange, queues = hash_exchange(client, new_name, [1] * 64, **arguments)
    expected = [queues[pick_bucket(None, 64)]]
    assert reached(client, queues, exchange, "one") == expected
    assert reached(client, queues, exchange, "two") == expected


@differs(
    rabbitmq="hashes all of the header",
    reason="the hash costs a microsecond for each dozen of octets",
)
def test_a_header_longer_than_any_key_goes_to_the_shard_of_its_digest(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queues = hash_exchange(client, new_name, [1] * 64, hash_header="customer")
    for letter in "abcd":
        text = letter * 256
        digest = blake2b(text.encode()).digest()
        expected = [queues[pick_shard(digest, 64)]]
        assert reached(client, queues, exchange, headers={"customer": text}) == expected


def test_weights_are_buckets_in_the_order_of_the_bindings(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queues = hash_exchange(client, new_name, [2, 1, 3])
    owners = [queues[at] for at in (0, 0, 1, 2, 2, 2)]
    for number in range(30):
        key = f"key-{number}"
        assert reached(client, queues, exchange, key) == [owners[pick_shard(key, 6)]]


@differs(
    rabbitmq="refuses a weight above 10,000 (406), in the later versions of 4.2",
    reason="a weight costs no memory here",
    since=4,
)
def test_a_weight_may_be_large(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [20_000, 60_000])
    counts = spread(client, queues, exchange, key="key")
    assert counts.total() == MESSAGES
    assert 0 < counts[queues[0]] < counts[queues[1]]


def test_buckets_behind_a_queue_that_leaves_are_renumbered(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queues = hash_exchange(client, new_name, [1] * 5)
    client.call(Queue.Unbind(queue=queues[1], exchange=exchange, routing_key="1"), Queue.UnbindOk)
    left = queues[:1] + queues[2:]
    for number in range(30):
        key = f"key-{number}"
        assert reached(client, queues, exchange, key) == [left[pick_shard(key, 4)]]


def test_a_queue_bound_twice_keeps_its_first_weight(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10])
    bind_queue(client, queues[0], exchange, "1000")
    counts = spread(client, queues, exchange, key="key")
    assert counts.total() == MESSAGES
    assert counts[queues[1]] > MESSAGES * 0.25


def test_a_queue_that_leaves_gives_its_share_to_the_others(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queues = hash_exchange(client, new_name, [10, 10, 10])
    unbind = Queue.Unbind(queue=queues[1], exchange=exchange, routing_key="10")
    client.call(unbind, Queue.UnbindOk)
    counts = spread(client, queues, exchange, key="key")
    assert counts.total() == MESSAGES
    assert counts.keys() == {queues[0], queues[2]}


@pytest.mark.parametrize("rounds", [1, 3])
def test_deleted_queues_leave_nothing_to_those_that_are_declared_again(
    client: AmqpClient, new_name: NewName, rounds: int
) -> None:
    exchange, queues = hash_exchange(client, new_name, [1, 2, 1, 3])
    for _ in range(rounds):
        for queue in (queues[1], queues[3]):
            client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
        assert spread(client, queues[::2], exchange, key="key").total() == MESSAGES
        for queue in queues[1::2]:
            client.declare(queue)
        # Declared again, they are not bound.
        counts = spread(client, queues, exchange, key="key")
        assert counts.total() == MESSAGES
        assert counts.keys() == set(queues[::2])
        for queue in (queues[3], queues[1]):
            bind_queue(client, queue, exchange, "2")
        counts = spread(client, queues, exchange, key="key")
        assert counts.total() == MESSAGES
        owners = [queues[at] for at in (0, 2, 3, 3, 1, 1)]
        for number in range(20):
            key = f"key-{number}"
            assert reached(client, queues, exchange, key) == [owners[pick_shard(key, 6)]]


@pytest.mark.parametrize("first", ["exchange", "queues"])
def test_a_deleted_exchange_leaves_nothing_to_one_that_is_declared_again(
    client: AmqpClient, new_name: NewName, first: str
) -> None:
    exchange, queues = hash_exchange(client, new_name, [3, 1, 2])
    delete_exchange = (Exchange.Delete(exchange=exchange), Exchange.DeleteOk)
    if first == "exchange":
        client.call(*delete_exchange)
    for queue in queues[:2]:
        client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
    if first == "queues":
        client.call(*delete_exchange)
    declare_exchange(client, exchange, HASH)
    client.publish(b"", "any", exchange, mandatory=True)
    expect_unroutable(client)
    client.expect_confirmed()
    for queue in queues:
        client.declare(queue)
        bind_queue(client, queue, exchange, "1")
    for number in range(30):
        key = f"key-{number}"
        assert reached(client, queues, exchange, key) == [queues[pick_shard(key, 3)]]


@differs(
    rabbitmq="takes the queue out with any of its bindings",
    reason="a queue that is bound still is in use",
)
def test_a_queue_bound_twice_stays_while_one_binding_is_left(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queues = hash_exchange(client, new_name, [10])
    bind_queue(client, queues[0], exchange, "20")
    unbind = Queue.Unbind(queue=queues[0], exchange=exchange, routing_key="20")
    client.call(unbind, Queue.UnbindOk)
    assert reached(client, queues, exchange, "any") == queues


def test_without_bindings_nothing_is_routed(client: AmqpClient, name: str) -> None:
    declare_exchange(client, name, HASH)
    client.publish(b"", "key", name, mandatory=True)
    expect_unroutable(client)


def test_exchanges_have_shares_as_well(client: AmqpClient, new_name: NewName) -> None:
    exchange, target, queue = new_name(), new_name(), new_name()
    declare_exchange(client, exchange, HASH)
    declare_exchange(client, target, "fanout")
    client.declare(queue)
    bind_queue(client, queue, target)
    bind_exchange(client, target, exchange, "1")
    assert reached(client, [queue], exchange, "any") == [queue]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("ten", 'The binding key must be an integer: <<"ten">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_a_binding_key_that_is_no_weight_is_refused(
    client: AmqpClient, name: str, key: str, text: str
) -> None:
    declare_exchange(client, name, HASH)
    client.declare(name)
    client.send(Queue.Bind(queue=name, exchange=name, routing_key=key))
    expect_channel_error(client, 406, f"PRECONDITION_FAILED - {text}", Queue.Bind)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ten", 'The binding key must be an integer: <<"ten">>'),
        ("0", "The binding key must be greater than 0"),
    ],
)
def test_the_weight_of_an_exchange_is_checked_too(
    client: AmqpClient, name: str, key: str, text: str
) -> None:
    declare_exchange(client, name, HASH)
    client.send(Exchange.Bind(destination="amq.fanout", source=name, routing_key=key))
    expect_channel_error(client, 406, f"PRECONDITION_FAILED - {text}", Exchange.Bind)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash-property": "message_id", "hash-header": "customer"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
    ids=["another property", "header and property"],
)
def test_an_exchange_that_could_not_hash_is_refused_and_not_made(
    client: AmqpClient,
    name: str,
    arguments: Any,  # noqa: ANN401
    text: str,
) -> None:
    client.send(Exchange.Declare(exchange=name, exchange_type=HASH, arguments=arguments))
    expect_channel_error(client, 406, f"PRECONDITION_FAILED - {text}", Exchange.Declare)
    client.open_channel()
    client.send(Exchange.Declare(exchange=name, passive=True))
    client.expect_channel_close(404)


def test_a_type_with_a_hyphen_is_quoted_twice_when_it_differs(
    client: AmqpClient, name: str
) -> None:
    declare_exchange(client, name, RANDOM)
    client.send(Exchange.Declare(exchange=name, exchange_type="topic"))
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': "
        "received 'topic' but current is ''x-random''"
    )
    expect_channel_error(client, 406, text, Exchange.Declare)


def test_random_takes_one_of_its_queues(client: AmqpClient, new_name: NewName) -> None:
    exchange, queues = new_name(), [new_name() for _ in range(3)]
    declare_exchange(client, exchange, RANDOM)
    for queue in queues:
        client.declare(queue)
        bind_queue(client, queue, exchange, "ignored")
    counts = Counter[str]()
    for _ in range(10):
        counts += spread(client, queues, exchange, key="key")
    assert counts.total() == 10 * MESSAGES
    assert all(counts[queue] > MESSAGES for queue in queues)


def test_random_without_queues_routes_nothing(client: AmqpClient, name: str) -> None:
    declare_exchange(client, name, RANDOM)
    client.publish(b"", "key", name, mandatory=True)
    expect_unroutable(client)
