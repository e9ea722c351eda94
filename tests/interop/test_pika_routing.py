"""pika: a message goes to every queue whose bindings fit, once."""

from datetime import UTC, datetime
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

pytestmark = pytest.mark.interop


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Take everything that is ready in a queue."""
    taken = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        taken.append(got[2])
    return taken


def queues(channel: BlockingChannel, count: int) -> list[str]:
    """Make queues that go with the connection."""
    return [channel.queue_declare("", exclusive=True).method.queue for _ in range(count)]


def test_a_direct_exchange_compares_keys(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "direct")
    first, second = queues(channel, 2)
    for queue, key in ((first, "a"), (first, "b"), (second, "b"), (second, "b.c")):
        channel.queue_bind(queue, name, key)
    for key in ("a", "b", "b.c", "B", ""):
        channel.basic_publish(name, key, key.encode())
    assert bodies(channel, first) == [b"a", b"b"]
    assert bodies(channel, second) == [b"b", b"b.c"]


def test_a_fanout_exchange_ignores_keys_and_gives_each_queue_one_copy(
    channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(name, "fanout")
    bound = queues(channel, 3)
    for queue in bound:
        channel.queue_bind(queue, name, "a")
        channel.queue_bind(queue, name, "b")
    channel.basic_publish(name, "c", b"all")
    channel.queue_unbind(bound[0], name, "a")
    channel.queue_unbind(bound[0], name, "b")
    channel.basic_publish(name, "", b"all but one")
    assert bodies(channel, bound[0]) == [b"all"]
    assert [bodies(channel, queue) for queue in bound[1:]] == [[b"all", b"all but one"]] * 2


TOPICS = {
    "#": {"", "a", "a.b", "a.b.c", "a.c.b", ".", "b"},
    "*": {"a", "b"},
    "a": {"a"},
    "a.#": {"a", "a.b", "a.b.c", "a.c.b"},
    "a.*": {"a.b"},
    "#.b": {"a.b", "a.c.b", "b"},
    "*.b": {"a.b"},
    "a.*.#": {"a.b", "a.b.c", "a.c.b"},
    "a.#.b": {"a.b", "a.c.b"},
    "#.#": {"", "a", "a.b", "a.b.c", "a.c.b", ".", "b"},
    "*.*": {"a.b", "."},
    "": {""},
}


@pytest.mark.parametrize("pattern", TOPICS)
def test_a_topic_exchange_matches_words(channel: BlockingChannel, name: str, pattern: str) -> None:
    channel.exchange_declare(name, "topic")
    (queue,) = queues(channel, 1)
    channel.queue_bind(queue, name, pattern)
    for key in ("", "a", "a.b", "a.b.c", "a.c.b", ".", "b"):
        channel.basic_publish(name, key, key.encode())
    assert {body.decode() for body in bodies(channel, queue)} == TOPICS[pattern]


HEADERS: list[tuple[dict[str, Any], dict[str, Any] | None, bool]] = [
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}, True),
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1}, False),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 1 << 40}, False),
    ({"a": 1 << 40}, {"a": 1 << 40}, True),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": True}, {"a": True}, True),
    ({"a": True}, {"a": 1}, False),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"x-match": "all"}, {"a": 1}, True),
    ({"x-match": "all"}, None, True),
    ({"x-match": "all", "x-a": 1}, {}, True),
    ({"x-match": "all-with-x", "x-a": 1}, {}, False),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"a": None}, {"a": "whatever"}, True),
    ({"a": None}, {"b": 1}, False),
    ({"a": datetime(2024, 1, 2, tzinfo=UTC)}, {"a": datetime(2024, 1, 2, tzinfo=UTC)}, True),
    ({"a": [1, "x", {"b": 2}]}, {"a": [1, "x", {"b": 2}]}, True),
    ({"a": 2}, None, False),
]


@pytest.mark.parametrize("case", range(len(HEADERS)))
def test_a_headers_exchange_compares_headers(
    channel: BlockingChannel, name: str, case: int
) -> None:
    arguments, headers, is_routed = HEADERS[case]
    channel.exchange_declare(name, "headers")
    (queue,) = queues(channel, 1)
    channel.queue_bind(queue, name, "ignored", arguments)
    channel.basic_publish(name, "", b"", pika.BasicProperties(headers=headers))
    assert bodies(channel, queue) == [b""] * is_routed


def test_headers_that_differ_within_one_burst_go_different_ways(
    channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(name, "headers")
    even, odd = queues(channel, 2)
    channel.queue_bind(even, name, arguments={"odd": 0})
    channel.queue_bind(odd, name, arguments={"odd": 1})
    for number in range(100):
        properties = pika.BasicProperties(headers={"odd": number % 2})
        channel.basic_publish(name, "", bytes([number]), properties)
    assert bodies(channel, even) == [bytes([number]) for number in range(0, 100, 2)]
    assert bodies(channel, odd) == [bytes([number]) for number in range(1, 100, 2)]


def test_the_default_exchange_routes_by_queue_name_and_forgets_a_deleted_queue(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    channel.queue_declare(name)
    channel.basic_publish("", name, b"first", mandatory=True)
    channel.queue_delete(name)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", name, b"second", mandatory=True)
    channel.queue_declare(name)
    channel.basic_publish("", name, b"third", mandatory=True)
    assert bodies(channel, name) == [b"third"]


def test_a_binding_takes_effect_for_a_publisher_that_has_used_the_key_before(
    connection: pika.BlockingConnection, name: str
) -> None:
    publisher, binder = connection.channel(), connection.channel()
    publisher.confirm_delivery()
    publisher.exchange_declare(name, "topic")
    first, second = queues(binder, 2)
    binder.queue_bind(first, name, "a.*")
    publisher.basic_publish(name, "a.b", b"one")
    binder.queue_bind(second, name, "#")
    publisher.basic_publish(name, "a.b", b"two")
    binder.queue_unbind(first, name, "a.*")
    publisher.basic_publish(name, "a.b", b"three")
    assert bodies(binder, first) == [b"one", b"two"]
    assert bodies(binder, second) == [b"two", b"three"]


def test_exchanges_bound_to_exchanges_pass_messages_on_once(
    channel: BlockingChannel, name: str
) -> None:
    source, middle, end = (f"{name}-{part}" for part in ("source", "middle", "end"))
    channel.exchange_declare(source, "topic")
    channel.exchange_declare(middle, "fanout", internal=True)
    channel.exchange_declare(end, "direct")
    (queue,) = queues(channel, 1)
    channel.exchange_bind(middle, source, "a.#")
    channel.exchange_bind(end, middle)
    channel.exchange_bind(source, end, "a.x")  # a cycle
    channel.queue_bind(queue, end, "a.x")
    channel.queue_bind(queue, middle)
    for key in ("a.x", "a.y", "b"):
        channel.basic_publish(source, key, key.encode())
    assert bodies(channel, queue) == [b"a.x", b"a.y"]
    channel.exchange_unbind(middle, source, "a.#")
    channel.basic_publish(source, "a.x", b"")
    assert bodies(channel, queue) == []
    for exchange in (source, middle, end):
        channel.exchange_delete(exchange)
