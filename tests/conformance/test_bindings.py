"""Bindings of queues and exchanges: repeated ones, missing ones, cycles and chains."""

from itertools import pairwise
from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.routing import bind_exchange, bind_queue, declare_exchange, reached


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 has confirms."""
    return connect(confirms=True)


def unbind_queue(client: AmqpClient, queue: str, exchange: str, key: str, arguments: Any) -> None:  # noqa: ANN401
    """Take a binding away."""
    method = Queue.Unbind(queue=queue, exchange=exchange, routing_key=key, arguments=arguments)
    client.call(method, Queue.UnbindOk)


def test_a_binding_made_twice_is_one(client: AmqpClient, name: str) -> None:
    client.declare(name)
    bind_queue(client, name, "amq.direct", name)
    bind_queue(client, name, "amq.direct", name)
    unbind_queue(client, name, "amq.direct", name, {})
    assert reached(client, [name], "amq.direct", name) == []


def test_bindings_with_different_arguments_are_different(client: AmqpClient, name: str) -> None:
    client.declare(name)
    bind_queue(client, name, "amq.direct", name, {"a": 1, "b": 2})
    bind_queue(client, name, "amq.direct", name, {"a": 1})
    unbind_queue(client, name, "amq.direct", name, {"a": 1})
    assert reached(client, [name], "amq.direct", name) == [name]
    unbind_queue(client, name, "amq.direct", name, {"a": 2, "b": 2})
    unbind_queue(client, name, "amq.direct", name, {})
    assert reached(client, [name], "amq.direct", name) == [name]
    # The order of a table's fields is of no importance.
    unbind_queue(client, name, "amq.direct", name, {"b": 2, "a": 1})
    assert reached(client, [name], "amq.direct", name) == []


def test_a_missing_binding_may_be_taken_away(client: AmqpClient, name: str) -> None:
    client.declare(name)
    unbind_queue(client, name, "amq.direct", "never", {})
    unbind = Exchange.Unbind(source="amq.direct", destination="amq.fanout", routing_key=name)
    client.call(unbind, Exchange.UnbindOk)


def test_a_missing_exchange_cannot_be_bound(client: AmqpClient, name: str) -> None:
    client.declare(name)
    client.send(Queue.Bind(queue=name, exchange=name, routing_key="key"))
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Queue.Bind)


def test_a_missing_queue_cannot_be_bound(client: AmqpClient, name: str) -> None:
    client.send(Queue.Bind(queue=name, exchange="amq.direct", routing_key="key"))
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Queue.Bind)


def test_of_two_missing_ends_the_source_is_named(client: AmqpClient, name: str) -> None:
    client.send(Queue.Bind(queue=f"{name}-queue", exchange=name, routing_key="key"))
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Queue.Bind)
    client.open_channel()
    client.send(Exchange.Bind(source=name, destination=f"{name}-destination"))
    expect_channel_error(client, 404, text, Exchange.Bind)


@pytest.mark.parametrize("missing", ["source", "destination"])
def test_missing_exchanges_cannot_be_bound_to_each_other(
    client: AmqpClient, name: str, missing: str
) -> None:
    source = name if missing == "source" else "amq.direct"
    destination = name if missing == "destination" else "amq.fanout"
    client.send(Exchange.Bind(source=source, destination=destination))
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Exchange.Bind)


def test_unbinding_a_missing_binding_is_no_error(client: AmqpClient, name: str) -> None:
    queue = f"{name}-queue"
    client.declare(name)
    for unbind in (
        Queue.Unbind(queue=name, exchange=name, routing_key="key"),
        Queue.Unbind(queue=queue, exchange="amq.direct", routing_key="key"),
        Queue.Unbind(queue=queue, exchange=name, routing_key="key"),
    ):
        client.call(unbind, Queue.UnbindOk)
    for source, destination in ((name, "amq.fanout"), ("amq.direct", name), (name, name)):
        method = Exchange.Unbind(source=source, destination=destination)
        client.call(method, Exchange.UnbindOk)


def test_no_queue_was_declared_that_an_empty_name_could_mean(client: AmqpClient) -> None:
    client.send(Queue.Bind(queue="", exchange="amq.direct", routing_key="key"))
    text = "NOT_FOUND - no previously declared queue"
    expect_channel_error(client, 404, text, Queue.Bind)


def test_empty_names_mean_the_queue_declared_last(client: AmqpClient, name: str) -> None:
    client.declare(name)
    # With both empty, the key is the queue's name as well.
    bind_queue(client, "", "amq.direct", "")
    assert reached(client, [name], "amq.direct", name) == [name]
    client.call(Queue.Unbind(queue="", exchange="amq.direct"), Queue.UnbindOk)
    assert reached(client, [name], "amq.direct", name) == []


def test_an_exchange_feeds_another(client: AmqpClient, new_name: NewName) -> None:
    source, target, queue = new_name(), new_name(), new_name()
    declare_exchange(client, source, "topic")
    declare_exchange(client, target, "direct")
    client.declare(queue)
    bind_exchange(client, target, source, "orders.#")
    bind_queue(client, queue, target, "orders.new")
    assert reached(client, [queue], source, "orders.new") == [queue]
    assert reached(client, [queue], source, "orders.old") == []
    unbind = Exchange.Unbind(source=source, destination=target, routing_key="orders.#")
    client.call(unbind, Exchange.UnbindOk)
    assert reached(client, [queue], source, "orders.new") == []


def test_a_cycle_of_exchanges_is_followed_once(client: AmqpClient, new_name: NewName) -> None:
    exchanges = [new_name() for _ in range(4)]
    queues = [new_name() for _ in exchanges]
    for exchange, queue in zip(exchanges, queues, strict=True):
        declare_exchange(client, exchange, "fanout")
        client.declare(queue)
        bind_queue(client, queue, exchange)
    for source, target in zip(exchanges, exchanges[1:] + exchanges[:1], strict=True):
        bind_exchange(client, target, source)
    bind_exchange(client, exchanges[0], exchanges[0])
    for exchange in exchanges:
        assert reached(client, queues, exchange) == queues


def test_a_queue_reached_in_two_ways_gets_one_copy(client: AmqpClient, new_name: NewName) -> None:
    top, left, right, queue = new_name(), new_name(), new_name(), new_name()
    client.declare(queue)
    for exchange in (top, left, right):
        declare_exchange(client, exchange, "fanout")
        bind_queue(client, queue, exchange)
    bind_exchange(client, left, top)
    bind_exchange(client, right, top)
    assert reached(client, [queue], top) == [queue]


def test_a_chain_of_thirty_exchanges_is_followed_to_its_end(
    client: AmqpClient, new_name: NewName
) -> None:
    chain = [new_name() for _ in range(30)]
    queue = new_name()
    for exchange in chain:
        declare_exchange(client, exchange, "topic")
    for source, target in pairwise(chain):
        bind_exchange(client, target, source, "0.#")
    client.declare(queue)
    bind_queue(client, queue, chain[-1], "#.end")
    assert reached(client, [queue], chain[0], "0.0.end") == [queue]
    assert reached(client, [queue], chain[0], "1.0.end") == []


def test_a_message_passed_on_keeps_exchange_and_key(client: AmqpClient, new_name: NewName) -> None:
    source, target, queue = new_name(), new_name(), new_name()
    declare_exchange(client, source, "fanout")
    declare_exchange(client, target, "fanout")
    client.declare(queue)
    bind_exchange(client, target, source)
    bind_queue(client, queue, target)
    client.publish(b"", "key", source)
    client.expect_confirmed()
    message = client.get(queue)
    assert message is not None
    got = message.method
    assert (got.exchange, got.routing_key) == (source, "key")


@pytest.mark.parametrize("durable", [(True, False), (False, True), (False, False), (True, True)])
def test_durable_and_transient_ends_may_be_bound(
    client: AmqpClient, new_name: NewName, durable: tuple[bool, bool]
) -> None:
    source, target, queue = new_name(), new_name(), new_name()
    for exchange, lasts in ((source, durable[0]), (target, durable[1])):
        method = Exchange.Declare(exchange=exchange, exchange_type="fanout", durable=lasts)
        client.call(method, Exchange.DeclareOk)
    client.declare(queue, durable=durable[1])
    bind_exchange(client, target, source)
    bind_queue(client, queue, target)
    assert reached(client, [queue], source) == [queue]
