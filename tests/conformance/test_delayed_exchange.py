"""An x-delayed-message exchange keeps a message for a time before it routes it."""

import time
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import consume
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import ours_only
from tests.conformance.polling import MILLISECOND, eventually
from tests.conformance.queues import take
from tests.conformance.routing import bind_exchange, bind_queue, declare_exchange
from tests.conformance.streams import FIRST, declare_stream, offset_of, read_from

DELAYED = "x-delayed-message"
SOON_MS, LATER_MS, NEVER_MS = 200, 600, 3_600_000
pytestmark = ours_only("RabbitMQ's package does not contain the plugin")


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 has confirms."""
    return connect(confirms=True)


def delayed_exchange(
    client: AmqpClient, new_name: NewName, kind: str = "direct"
) -> tuple[str, str]:
    """Declare an exchange that can delay, and a queue bound by the key `k`."""
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, DELAYED, {"x-delayed-type": kind})
    client.declare(queue)
    bind_queue(client, queue, exchange, "k")
    return exchange, queue


def delayed(delay: Any, **headers: Any) -> Basic.Properties:  # noqa: ANN401
    return Basic.Properties(headers={"x-delay": delay, **headers}, delivery_mode=2)


def publish_delayed(
    client: AmqpClient,
    exchange: str,
    delay: Any,  # noqa: ANN401
    body: bytes = b"",
    key: str = "k",
    **headers: Any,  # noqa: ANN401
) -> None:
    """Publish a message that asks for a delay, and wait for its confirm."""
    client.publish(body, key, exchange, properties=delayed(delay, **headers))
    client.expect_confirmed()


def test_a_message_arrives_when_its_delay_is_over_and_not_sooner(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    began = time.monotonic()
    publish_delayed(client, exchange, 500, b"later", a="kept")
    assert client.ready_count(queue) == 0 or time.monotonic() - began >= 0.5 - MILLISECOND
    consume(client, queue, no_ack=True)
    message = client.expect_delivery()
    assert time.monotonic() - began >= 0.5 - MILLISECOND
    assert message.body == b"later"
    assert message.properties.headers == {"x-delay": -500, "a": "kept"}
    assert isinstance(message.method, Basic.Deliver)
    assert (message.method.exchange, message.method.routing_key) == (exchange, "k")
    assert not message.redelivered


def test_messages_arrive_in_the_order_of_their_delays(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    method = Basic.Publish(0, exchange, "k")
    # In one write: the broker gets them at the same time.
    client.send_raw(
        b"".join(
            client.publish_octets(method, b"%d" % delay, delayed(delay))
            for delay in (600, 200, 400, 0)
        )
    )
    client.published[1] += 4
    client.expect_confirmed()
    consume(client, queue, no_ack=True)
    bodies = [client.expect_delivery().body for _ in range(4)]
    assert bodies == [b"0", b"200", b"400", b"600"]


@pytest.mark.parametrize("delay", [0, -1, None, "soon", True])
def test_a_message_without_a_delay_is_routed_at_once_and_unchanged(
    client: AmqpClient,
    new_name: NewName,
    delay: Any,  # noqa: ANN401
) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    publish_delayed(client, exchange, delay)
    client.publish(b"without headers", "k", exchange)
    client.expect_confirmed()
    first, second = client.get(queue), client.get(queue)
    assert first is not None
    assert first.properties.headers == {"x-delay": delay}
    assert second is not None
    assert second.properties.headers is None


@pytest.mark.parametrize("delay", ["400", 400.0])
def test_a_delay_may_be_text_or_a_float(client: AmqpClient, new_name: NewName, delay: Any) -> None:  # noqa: ANN401
    exchange, queue = delayed_exchange(client, new_name)
    publish_delayed(client, exchange, delay)
    assert client.ready_count(queue) == 0
    eventually(lambda: client.ready_count(queue) == 1)


@pytest.mark.parametrize("kind", ["fanout", "topic", "headers", "x-consistent-hash"])
def test_a_delayed_message_is_routed_by_the_type_that_the_exchange_names(
    client: AmqpClient, new_name: NewName, kind: str
) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, DELAYED, {"x-delayed-type": kind})
    client.declare(queue)
    bind_queue(client, queue, exchange, "1")
    publish_delayed(client, exchange, 100, key="1")
    eventually(lambda: client.ready_count(queue) == 1)


def test_a_delayed_message_is_not_returned_and_an_immediate_one_is(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, _ = delayed_exchange(client, new_name)
    client.publish(b"kept", "unbound", exchange, properties=delayed(SOON_MS), mandatory=True)
    client.expect_confirmed()
    client.publish(b"returned", "unbound", exchange, mandatory=True)
    assert client.expect_return().body == b"returned"
    client.expect_confirmed()


def test_bindings_count_when_the_delay_is_over(client: AmqpClient, new_name: NewName) -> None:
    exchange, _ = delayed_exchange(client, new_name)
    queue, delay = new_name(), SOON_MS
    while True:
        began = time.monotonic()
        publish_delayed(client, exchange, delay, b"x", key="late")
        client.declare(queue)
        bind_queue(client, queue, exchange, "late")
        if time.monotonic() - began < delay / 1000:
            break
        # The machine stood still, so the exchange may have found no queue.
        client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
        delay *= 2
    assert take(client, queue).body == b"x"


def test_copies_are_delayed_too_and_have_no_bcc(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    others = [new_name(), new_name()]
    for other in others:
        client.declare(other)
        bind_queue(client, other, exchange, other)
    publish_delayed(client, exchange, SOON_MS, CC=[others[0]], BCC=[others[1]])
    for each in (queue, *others):
        assert take(client, each).properties.headers == {"CC": [others[0]], "x-delay": -SOON_MS}


def test_of_two_delayed_exchanges_in_a_row_only_the_first_delays(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    source, second = new_name(), new_name()
    declare_exchange(client, source, "fanout")
    declare_exchange(client, second, DELAYED, {"x-delayed-type": "fanout"})
    bind_exchange(client, second, source)
    bind_exchange(client, exchange, second, "k")
    publish_delayed(client, source, SOON_MS)
    assert take(client, queue).properties.headers == {"x-delay": -SOON_MS}


def test_the_time_to_live_begins_when_the_delay_is_over(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, _ = delayed_exchange(client, new_name)
    short, dead = new_name(), new_name()
    client.declare(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    client.declare(short, arguments=arguments)
    bind_queue(client, short, exchange, "short")
    properties = Basic.Properties(headers={"x-delay": LATER_MS}, expiration="1")
    began = time.monotonic()
    client.publish(b"x", "short", exchange, properties=properties)
    client.expect_confirmed()
    assert take(client, dead).body == b"x"
    assert time.monotonic() - began >= LATER_MS / 1000


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_delayed_messages_go_into_a_stream_in_the_order_of_their_delays(
    client: AmqpClient, new_name: NewName, delivery_mode: int
) -> None:
    exchange, _ = delayed_exchange(client, new_name)
    stream = new_name()
    declare_stream(client, stream)
    bind_queue(client, stream, exchange, "stream")
    method = Basic.Publish(0, exchange, "stream")
    properties = [
        Basic.Properties(headers={"x-delay": delay}, delivery_mode=delivery_mode)
        for delay in (150, 50)
    ]
    client.send_raw(
        b"".join(
            client.publish_octets(method, b"%d" % at, each) for at, each in enumerate(properties)
        )
    )
    client.published[1] += 2
    client.expect_confirmed()
    read_from(client, stream, FIRST)
    messages = [client.expect_delivery() for _ in range(2)]
    assert [(each.body, offset_of(each)) for each in messages] == [(b"1", 0), (b"0", 1)]


def test_a_transient_exchange_delays_messages_too(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = new_name(), new_name()
    arguments: Any = {"x-delayed-type": "fanout"}
    declare = Exchange.Declare(0, exchange, DELAYED, durable=False, arguments=arguments)
    client.call(declare, Exchange.DeclareOk)
    client.declare(queue)
    bind_queue(client, queue, exchange)
    publish_delayed(client, exchange, SOON_MS, b"x")
    assert take(client, queue).body == b"x"


def test_an_auto_delete_exchange_is_deleted_with_its_last_binding_and_its_messages(
    client: AmqpClient, new_name: NewName
) -> None:
    exchange, queue = new_name(), new_name()
    client.declare(queue)
    arguments: Any = {"x-delayed-type": "fanout"}
    for _ in range(2):
        declare = Exchange.Declare(0, exchange, DELAYED, False, True, True, False, False, arguments)
        client.call(declare, Exchange.DeclareOk)
        bind_queue(client, queue, exchange)
        publish_delayed(client, exchange, NEVER_MS)
        client.call(Queue.Unbind(0, queue, exchange, ""), Queue.UnbindOk)
    client.send(Exchange.Declare(exchange=exchange, passive=True))
    client.expect_channel_close(404)


def test_the_queue_of_delayed_messages_is_hidden(client: AmqpClient, new_name: NewName) -> None:
    exchange, _ = delayed_exchange(client, new_name)
    publish_delayed(client, exchange, NEVER_MS)
    client.send(Queue.Declare(queue="amq.delayed", passive=True))
    text = "NOT_FOUND - no queue 'amq.delayed' in vhost '/'"
    expect_channel_error(client, 404, text, Queue.Declare)


@pytest.mark.parametrize("arguments", [None, {"x-delayed-type": "nonsense"}, {"x-delayed-type": 1}])
def test_the_type_that_routes_must_exist(
    client: AmqpClient,
    name: str,
    arguments: Any,  # noqa: ANN401
) -> None:
    client.send(Exchange.Declare(exchange=name, exchange_type=DELAYED, arguments=arguments))
    text = (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )
    expect_channel_error(client, 406, text, Exchange.Declare)


def test_an_exchange_that_is_declared_again_must_have_the_same_type_that_routes(
    client: AmqpClient, name: str
) -> None:
    for _ in range(2):
        declare_exchange(client, name, DELAYED, {"x-delayed-type": "direct"})
    arguments: Any = {"x-delayed-type": "topic"}
    client.send(Exchange.Declare(exchange=name, exchange_type=DELAYED, arguments=arguments))
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-delayed-type' for exchange '{name}' in vhost "
        "'/': received 'topic' but current is 'direct'"
    )
    expect_channel_error(client, 406, text, Exchange.Declare)
