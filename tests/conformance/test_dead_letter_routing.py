"""Where dead letters are routed, and which cycles of dead letters end."""

import time
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.dead_letters import deaths, die, to
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.polling import MILLISECOND, eventually
from tests.conformance.queues import (
    Arguments,
    await_ready_count,
    headers_of,
    outlive,
    publish_all,
    reject,
    take,
)

TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


def copies(**keys: list[str]) -> Basic.Properties:
    """Return properties with the headers CC and BCC."""
    given: Any = keys
    return Basic.Properties(headers=given)


def declare_exchange(client: AmqpClient, exchange: str, kind: str) -> None:
    client.call(Exchange.Declare(exchange=exchange, exchange_type=kind), Exchange.DeclareOk)


def bind(client: AmqpClient, queue: str, exchange: str, key: str = "") -> None:
    client.call(Queue.Bind(queue=queue, exchange=exchange, routing_key=key), Queue.BindOk)


@pytest.fixture
def exchange(client: AmqpClient, new_name: NewName) -> str:
    """Declare a direct exchange for dead letters."""
    exchange = new_name()
    declare_exchange(client, exchange, "direct")
    return exchange


@pytest.fixture
def queues(client: AmqpClient, new_name: NewName, exchange: str) -> dict[str, str]:
    """Declare queues that are bound to the exchange by the keys of this mapping."""
    queues = {key: new_name() for key in ("own", "new", "copy", "blind")}
    for key, queue in queues.items():
        client.declare(queue)
        bind(client, queue, exchange, key)
    return queues


def arrived(client: AmqpClient, queues: dict[str, str]) -> set[str]:
    """Return the keys by which a dead letter came, once it has come by any."""
    eventually(lambda: any(client.ready_count(queue) for queue in queues.values()))
    return {key for key, queue in queues.items() if client.ready_count(queue)}


# Routing keys


def test_without_a_routing_key_a_dead_letter_keeps_its_own(
    client: AmqpClient, name: str, exchange: str, queues: dict[str, str]
) -> None:
    client.declare(name, arguments={"x-dead-letter-exchange": exchange})
    bind(client, name, "amq.direct", "own")
    client.publish(b"x", "own", "amq.direct")
    reject(client, take(client, name, no_ack=False))
    message = take(client, queues["own"])
    assert (message.method.exchange, message.method.routing_key) == (exchange, "own")


def test_with_a_routing_key_a_dead_letter_has_only_that(
    client: AmqpClient, name: str, exchange: str, queues: dict[str, str]
) -> None:
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "new"}
    client.declare(name, arguments=arguments)
    die(client, name, copies(CC=["copy"], BCC=["blind"]))
    assert arrived(client, queues) == {"new"}
    message = take(client, queues["new"])
    assert message.method.routing_key == "new"
    assert headers_of(message)["x-death"][0]["routing-keys"] == [name, "copy"]


@differs(
    rabbitmq="keeps the header, which routes no later death",
    reason="what a message is routed by is what its headers say",
    since=4,
)
def test_with_a_routing_key_a_dead_letter_has_no_copies_any_more(
    client: AmqpClient, name: str, exchange: str, queues: dict[str, str]
) -> None:
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "new"}
    client.declare(name, arguments=arguments)
    die(client, name, copies(CC=["copy"]))
    assert "CC" not in headers_of(take(client, queues["new"]))


def test_without_a_routing_key_copies_are_routed_again(
    client: AmqpClient, name: str, exchange: str, queues: dict[str, str]
) -> None:
    client.declare(name, arguments={"x-dead-letter-exchange": exchange})
    bind(client, queues["own"], exchange, name)
    die(client, name, copies(CC=["copy"]))
    await_ready_count(client, queues["copy"], 1)
    assert arrived(client, queues) == {"own", "copy"}
    message = take(client, queues["copy"])
    assert message.method.routing_key == name
    assert headers_of(message)["CC"] == ["copy"]


@differs(
    rabbitmq="blind copies are routed again as well",
    reason="BCC is stored nowhere, so that no consumer, browser or export can show it",
)
def test_without_a_routing_key_blind_copies_are_not_routed_again(
    client: AmqpClient, name: str, exchange: str, queues: dict[str, str]
) -> None:
    client.declare(name, arguments={"x-dead-letter-exchange": exchange})
    die(client, name, copies(CC=["copy"], BCC=["blind"]))
    await_ready_count(client, queues["copy"], 1)
    assert arrived(client, queues) == {"copy"}


def test_an_empty_routing_key_is_one(client: AmqpClient, name: str, exchange: str) -> None:
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": ""}
    client.declare(name, arguments=arguments)
    bind(client, name, exchange, "")
    die(client, name)
    assert take(client, name).method.routing_key == ""


# Exchanges


def test_a_dead_letter_goes_to_every_queue_that_its_exchange_names(
    client: AmqpClient, new_name: NewName
) -> None:
    source, exchange, *targets = (new_name() for _ in range(5))
    declare_exchange(client, exchange, "fanout")
    client.declare(source, arguments={"x-dead-letter-exchange": exchange})
    for target in targets:
        client.declare(target)
        bind(client, target, exchange)
    die(client, source)
    assert [take(client, target).body for target in targets] == [b"x"] * 3


def test_a_dead_letter_is_routed_by_patterns_and_through_exchanges(
    client: AmqpClient, new_name: NewName
) -> None:
    source, topic, fanout, by_pattern, behind, other = (new_name() for _ in range(6))
    declare_exchange(client, topic, "topic")
    declare_exchange(client, fanout, "fanout")
    through = Exchange.Bind(destination=fanout, source=topic, routing_key="dead.#")
    client.call(through, Exchange.BindOk)
    for queue in (by_pattern, behind, other):
        client.declare(queue)
    bind(client, by_pattern, topic, "*.letter")
    bind(client, behind, fanout)
    bind(client, other, topic, "live.#")
    arguments = {"x-dead-letter-exchange": topic, "x-dead-letter-routing-key": "dead.letter"}
    client.declare(source, arguments=arguments)
    die(client, source)
    for queue in (by_pattern, behind):
        message = take(client, queue)
        assert (message.method.exchange, message.method.routing_key) == (topic, "dead.letter")
    assert client.ready_count(other) == 0


def test_a_dead_letter_is_routed_by_the_headers_it_has_now(
    client: AmqpClient, new_name: NewName
) -> None:
    source, exchange, matching, other = (new_name() for _ in range(4))
    declare_exchange(client, exchange, "headers")
    client.declare(source, arguments={"x-dead-letter-exchange": exchange})
    for queue, reason in ((matching, "rejected"), (other, "expired")):
        client.declare(queue)
        arguments: Any = {"x-match": "all-with-x", "x-first-death-reason": reason}
        method = Queue.Bind(queue=queue, exchange=exchange, arguments=arguments)
        client.call(method, Queue.BindOk)
    die(client, source)
    assert take(client, matching).body == b"x"
    assert client.ready_count(other) == 0


def test_the_alternate_exchange_takes_a_dead_letter_that_has_no_queue(
    client: AmqpClient, new_name: NewName
) -> None:
    source, exchange, alternate, target = (new_name() for _ in range(4))
    declare_exchange(client, alternate, "fanout")
    method = Exchange.Declare(
        exchange=exchange, exchange_type="direct", arguments={"alternate-exchange": alternate}
    )
    client.call(method, Exchange.DeclareOk)
    client.declare(target)
    bind(client, target, alternate)
    client.declare(source, arguments={"x-dead-letter-exchange": exchange})
    die(client, source)
    assert take(client, target).body == b"x"


def test_an_internal_exchange_takes_dead_letters(client: AmqpClient, new_name: NewName) -> None:
    source, exchange, target = new_name(), new_name(), new_name()
    method = Exchange.Declare(exchange=exchange, exchange_type="fanout", internal=True)
    client.call(method, Exchange.DeclareOk)
    client.declare(target)
    bind(client, target, exchange)
    client.declare(source, arguments={"x-dead-letter-exchange": exchange})
    die(client, source)
    assert take(client, target).body == b"x"


# Targets with rules of their own


def test_a_full_queue_of_dead_letters_drops_its_oldest(
    client: AmqpClient, new_name: NewName
) -> None:
    source, target = new_name(), new_name()
    client.declare(target, arguments={"x-max-length": 2})
    client.declare(source, arguments=to(target) | {"x-max-length": 0})
    for number in range(5):
        client.publish(str(number).encode(), source)
    eventually(lambda: client.ready_count(source) == 0 and client.ready_count(target) == 2)

    def last_two() -> bool:
        taken = [take(client, target, no_ack=False) for _ in range(2)]
        for message in taken:
            reject(client, message, requeue=True)
        return [message.body for message in taken] == [b"3", b"4"]

    eventually(last_two)


def test_a_full_queue_of_dead_letters_that_refuses_loses_them(
    client: AmqpClient, new_name: NewName
) -> None:
    source, target = new_name(), new_name()
    client.declare(target, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.declare(source, arguments=to(target))
    for _ in range(3):
        die(client, source)
    await_ready_count(client, target, 1)
    assert client.ready_count(source) == 0
    assert take(client, target).body == b"x"
    assert client.get(target) is None


def test_dead_letters_drop_others_into_the_next_queue(
    client: AmqpClient, new_name: NewName
) -> None:
    source, middle, last = new_name(), new_name(), new_name()
    client.declare(last)
    client.declare(middle, arguments=to(last) | {"x-max-length": 1})
    client.declare(source, arguments=to(middle) | {"x-max-length": 1})
    for number in range(4):
        client.publish(str(number).encode(), source)
    await_ready_count(client, last, 2)
    assert [take(client, last).body for _ in range(2)] == [b"0", b"1"]
    assert take(client, middle).body == b"2"
    assert take(client, source).body == b"3"


def test_a_queue_of_dead_letters_has_its_own_lifetime(
    client: AmqpClient, new_name: NewName
) -> None:
    source, target = new_name(), new_name()
    client.declare(target, arguments={"x-message-ttl": 500})
    client.declare(source, arguments=to(target) | {"x-message-ttl": 300})
    client.publish(b"x", source)
    await_ready_count(client, target, 1)
    await_ready_count(client, target, 0)
    assert client.get(target) is None


def test_a_queue_of_dead_letters_orders_them_by_priority(
    client: AmqpClient, new_name: NewName
) -> None:
    source, target = new_name(), new_name()
    client.declare(target, arguments={"x-max-priority": 5})
    client.declare(source, arguments=to(target))
    for priority in (1, 5, 3):
        die(client, source, Basic.Properties(priority=priority))
    await_ready_count(client, target, 3)
    assert [take(client, target).properties.priority for _ in range(3)] == [5, 3, 1]


def test_a_dead_letter_goes_to_a_consumer_that_waits(
    connect: Connect, client: AmqpClient, new_name: NewName
) -> None:
    source, target = new_name(), new_name()
    client.declare(target)
    client.declare(source, arguments=to(target) | {"x-message-ttl": 50})
    consumer = connect()
    consumer.consume(target)
    client.publish(b"x", source)
    message = consumer.expect_delivery()
    assert message.body == b"x"
    assert not message.redelivered


# Rounds


@TYPES
def test_a_rejected_message_may_come_back_to_its_own_queue(
    client: AmqpClient, name: str, queue_type: str
) -> None:
    client.declare(name, arguments=to(name) | {"x-queue-type": queue_type})
    die(client, name)
    for count in (1, 2, 3):
        message = take(client, name, no_ack=False)
        [death] = headers_of(message)["x-death"]
        assert (death["count"], death["reason"]) == (count, "rejected")
        reject(client, message)


def test_an_expired_message_does_not_come_back_to_its_own_queue(
    connect: Connect, name: str, new_name: NewName
) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=to(name) | {"x-message-ttl": 100})
    publish_all(client, name, b"x")
    outlive(connect(), new_name(), 100)
    assert client.ready_count(name) == 0
    client.consume(name)
    client.publish(b"y", name)
    assert client.expect_delivery().body == b"y"


@differs_from_3_10(
    "turns the older deaths round at each new one, and drops some that were rejected"
)
def test_a_longer_round_with_a_reject_may_go_on(client: AmqpClient, new_name: NewName) -> None:
    first, second, third = new_name(), new_name(), new_name()
    client.declare(first, arguments=to(second) | {"x-message-ttl": 50})
    client.declare(second, arguments=to(third) | {"x-message-ttl": 50})
    client.declare(third, arguments=to(first))
    client.publish(b"x", first)
    for count in (1, 2, 3):
        message = take(client, third, no_ack=False)
        counts = [(each["queue"], each["count"]) for each in headers_of(message)["x-death"]]
        assert counts[:2] == [(second, count), (first, count)]
        reject(client, message)


def test_a_round_without_a_reject_is_dropped(client: AmqpClient, new_name: NewName) -> None:
    first, second, other = new_name(), new_name(), new_name()
    exchange = new_name()
    declare_exchange(client, exchange, "fanout")
    client.declare(other)
    client.declare(first, arguments=to(second) | {"x-message-ttl": 100})
    client.declare(second, arguments={"x-dead-letter-exchange": exchange, "x-message-ttl": 100})
    bind(client, first, exchange)
    bind(client, other, exchange)
    client.publish(b"x", first)
    assert take(client, other).body == b"x"
    # Another round would take both times.
    outlive(client, new_name(), 100)
    outlive(client, new_name(), 100)
    counts = [client.ready_count(queue) for queue in (first, second, other)]
    assert counts == [0, 0, 0]


@differs_from_3_10("takes it for a cycle, and drops it")
@TYPES
def test_a_dead_letter_that_is_published_again_as_it_came_dies_again(
    client: AmqpClient, new_name: NewName, queue_type: str
) -> None:
    """As Celery publishes a task again that waited in queues with lifetimes, or a shovel."""
    first, second, end = new_name(), new_name(), new_name()
    client.declare(end)
    kind: Arguments = {"x-message-ttl": 1, "x-queue-type": queue_type}
    client.declare(second, arguments=to(end) | kind)
    client.declare(first, arguments=to(second) | kind)
    client.publish(b"x", first)
    for count in (1, 2, 3):
        message = take(client, end)
        assert deaths(message) == [(second, "expired", count), (first, "expired", count)]
        client.publish(message.body, first, properties=message.properties)
    take(client, end)


def test_a_full_queue_that_is_its_own_target_does_not_go_round(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments=to(name) | {"x-max-length": 2})
    publish_all(client, name, b"1", b"2", b"3", b"4")
    await_ready_count(client, name, 2)
    assert [take(client, name).body for _ in range(2)] == [b"3", b"4"]
    assert client.get(name) is None


def test_a_chain_of_waiting_queues_delays_by_the_sum_of_its_levels(
    client: AmqpClient, new_name: NewName
) -> None:
    """As kombu's native delayed delivery: a bit of the routing key for each level."""
    levels = 5
    exchanges = [new_name() for _ in range(levels)]
    waiting = [new_name() for _ in range(levels)]
    target = new_name()
    for exchange in exchanges:
        declare_exchange(client, exchange, "topic")
    client.declare(target)
    bind(client, target, "amq.topic", f"#.{target}")
    for level in reversed(range(levels)):
        after = exchanges[level - 1] if level else "amq.topic"
        arguments = {
            "x-message-ttl": 2**level * 40,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": after,
        }
        client.declare(waiting[level], arguments=arguments)
        stars = "*." * (levels - 1 - level)
        bind(client, waiting[level], exchanges[level], f"{stars}1.#")
        skip = Exchange.Bind(destination=after, source=exchanges[level], routing_key=f"{stars}0.#")
        client.call(skip, Exchange.BindOk)
    begin = time.monotonic()
    client.publish(b"x", f"0.1.0.1.1.{target}", exchanges[-1])
    message = take(client, target)
    assert time.monotonic() - begin >= (8 + 2 + 1) * 0.04 - 3 * MILLISECOND
    queues = [each["queue"] for each in headers_of(message)["x-death"]]
    assert sorted(queues) == sorted(waiting[level] for level in (0, 1, 3))
    assert message.method.routing_key == f"0.1.0.1.1.{target}"
