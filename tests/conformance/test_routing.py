"""Which queues the direct, fanout, topic and default exchanges choose."""

import pytest
from pamqp.commands import Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.marks import ours_only
from tests.conformance.routing import bind_queue, declare_exchange, reached


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 has confirms."""
    return connect(confirms=True)


def test_the_default_exchange_takes_the_key_for_a_name(
    client: AmqpClient, new_name: NewName
) -> None:
    first, second = new_name(), new_name()
    client.declare(first)
    client.declare(second)
    assert reached(client, [first, second], "", first) == [first]
    assert reached(client, [first, second], "", first.upper()) == []


def test_direct_takes_keys_that_are_equal(client: AmqpClient, new_name: NewName) -> None:
    exchange, one, two = new_name(), new_name(), new_name()
    declare_exchange(client, exchange, "direct")
    for queue in (one, two):
        client.declare(queue)
    for queue, key in ((one, "a"), (one, ""), (two, "a.b"), (two, "#")):
        bind_queue(client, queue, exchange, key)
    queues = [one, two]
    assert reached(client, queues, exchange, "a") == [one]
    assert reached(client, queues, exchange, "A") == []
    assert reached(client, queues, exchange, "") == [one]
    assert reached(client, queues, exchange, "a.b") == [two]
    assert reached(client, queues, exchange, "#") == [two]


def test_fanout_takes_every_key(client: AmqpClient, new_name: NewName) -> None:
    exchange, one, two = new_name(), new_name(), new_name()
    declare_exchange(client, exchange, "fanout")
    for queue in (one, two):
        client.declare(queue)
        bind_queue(client, queue, exchange, "ignored")
    for key in ("", "ignored", "other"):
        assert reached(client, [one, two], exchange, key) == [one, two]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_a_queue_with_several_bindings_gets_one_copy(
    client: AmqpClient, new_name: NewName, kind: str
) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, kind)
    client.declare(queue)
    for arguments in ({}, {"x": 1}, {"x-match": "all"}):
        bind_queue(client, queue, exchange, "key", arguments)
    bind_queue(client, queue, exchange, "#")
    headers = {"x": 1}
    assert reached(client, [queue], exchange, "key", headers) == [queue]


TOPICS = [
    ("a", ["a"], ["", "b", "a.a", "a.", ".a", "A"]),
    ("a.b", ["a.b"], ["a", "b", "a.b.c", "a..b", "a.B"]),
    ("*", ["a", "abc", "*", "#"], ["", "a.b", "."]),
    ("*.*", ["a.b", ".", "a."], ["a", "", "a.b.c"]),
    ("a.*", ["a.b", "a.", "a.*"], ["a", "a.b.c", "b.b"]),
    ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
    ("#", ["", "a", "a.b", ".", "...", "a.b.c.d"], []),
    ("a.#", ["a", "a.b", "a.", "a.b.c"], ["", "ab", "b.a"]),
    ("#.a", ["a", "b.a", "b.c.a", ".a"], ["", "a.b", "ab"]),
    ("a.#.b", ["a.b", "a.c.b", "a.c.d.b", "a..b"], ["a", "b", "ab", "a.b.c"]),
    ("#.a.#", ["a", "b.a", "a.b", "b.a.b", "b.c.a.d.e"], ["", "b", "ab.b"]),
    ("*.#", ["a", "a.b", "a.b.c", "."], [""]),
    ("#.*", ["a", "a.b", "a.b.c"], [""]),
    ("#.#", ["", "a", "a.b"], []),
    ("#.*.#", ["a", "a.b"], [""]),
    ("*.#.*", ["a.b", "a.b.c"], ["", "a"]),
    ("#.#.#.a.#.#", ["a", "b.a", "a.b", "b.a.b"], ["", "b"]),
    ("", [""], ["a", "."]),
    (".", ["."], ["", "a", "..", "a."]),
    ("a..b", ["a..b"], ["a.b", "a.c.b"]),
    ("a*", ["a*"], ["a", "ab"]),
    ("a.#b", ["a.#b"], ["a.b", "a.c.b", "a"]),
    ("lang.ü.*", ["lang.ü.x"], ["lang.u.x"]),
]


@pytest.mark.parametrize(("pattern", "matching", "other"), TOPICS, ids=[t[0] for t in TOPICS])
def test_topic_takes_keys_word_by_word(
    client: AmqpClient, new_name: NewName, pattern: str, matching: list[str], other: list[str]
) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, "topic")
    client.declare(queue)
    bind_queue(client, queue, exchange, pattern)
    taken = [key for key in matching + other if reached(client, [queue], exchange, key)]
    assert taken == matching


def test_topic_takes_long_keys_and_patterns(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, "topic")
    client.declare(queue)
    bind_queue(client, queue, exchange, "*." * 27 + "1.#")
    bits = "0." * 27
    assert reached(client, [queue], exchange, f"{bits}1.celery.a.b") == [queue]
    assert reached(client, [queue], exchange, f"{bits}0.celery") == []


@ours_only("RabbitMQ's time for it doubles with each #, and never ends here")
def test_a_pattern_with_many_hash_signs_is_matched_quickly(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, "topic")
    client.declare(queue)
    bind_queue(client, queue, exchange, "#." * 40 + "end")
    assert reached(client, [queue], exchange, "w." * 100 + "end") == [queue]
    assert reached(client, [queue], exchange, "w." * 100 + "other") == []


def test_topic_bindings_come_and_go_one_by_one(client: AmqpClient, new_name: NewName) -> None:
    exchange, one, two = new_name(), new_name(), new_name()
    declare_exchange(client, exchange, "topic")
    patterns = ["a.#", "a.*", "a.b", "*.b", "#"]
    for queue in (one, two):
        client.declare(queue)
        for pattern in patterns:
            bind_queue(client, queue, exchange, pattern)
    for pattern in patterns:
        assert reached(client, [one, two], exchange, "a.b") == [one, two]
        unbind = Queue.Unbind(queue=one, exchange=exchange, routing_key=pattern)
        client.call(unbind, Queue.UnbindOk)
    assert reached(client, [one, two], exchange, "a.b") == [two]


def test_a_changed_binding_holds_for_keys_that_were_routed_before(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, "direct")
    client.declare(queue)
    for _ in range(3):
        assert reached(client, [queue], exchange, "k") == []
        bind_queue(client, queue, exchange, "k")
        assert reached(client, [queue], exchange, "k") == [queue]
        unbind = Queue.Unbind(queue=queue, exchange=exchange, routing_key="k")
        client.call(unbind, Queue.UnbindOk)
