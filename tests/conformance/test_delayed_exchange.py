"""Section 3: messages that an exchange keeps for a while before it routes them."""

import time
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import ours_only
from tests.conformance.polling import eventually
from tests.conformance.routing import bind_queue, declare_exchange, reached

DELAYED = "x-delayed-message"
pytestmark = ours_only("the plugin is not among those that RabbitMQ's package brings")


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


def publish_delayed(client: AmqpClient, exchange: str, delay: Any, body: bytes = b"") -> None:  # noqa: ANN401
    """Publish a message that asks for a delay, and wait for its confirm."""
    properties = Basic.Properties(headers={"x-delay": delay})
    client.publish(body, "k", exchange, properties=properties)
    client.expect_confirmed()


def test_a_message_arrives_when_its_delay_is_over(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    began = time.monotonic()
    publish_delayed(client, exchange, 500)
    assert client.ready_count(queue) == 0 or time.monotonic() - began >= 0.5
    message = eventually(lambda: client.get(queue))
    assert time.monotonic() - began >= 0.5
    assert message is not None
    assert message.properties.headers == {"x-delay": -500}


def test_the_shorter_delay_is_over_first(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    method = Basic.Publish(0, exchange, "k")
    # In one write: the broker gets them at the same time.
    client.send_raw(
        b"".join(
            client.publish_octets(
                method, b"%d" % delay, Basic.Properties(headers={"x-delay": delay})
            )
            for delay in (600, 200, 400)
        )
    )
    client.published[1] += 3
    client.expect_confirmed()
    eventually(lambda: client.ready_count(queue) == 3)
    bodies = [message.body for _ in range(3) if (message := client.get(queue))]
    assert bodies == [b"200", b"400", b"600"]


@pytest.mark.parametrize("delay", [0, -1, None, "soon", True])
def test_what_asks_for_no_delay_is_there_at_once(
    client: AmqpClient,
    new_name: NewName,
    delay: Any,  # noqa: ANN401
) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    publish_delayed(client, exchange, delay)
    assert client.ready_count(queue) == 1


@pytest.mark.parametrize("delay", ["400", 400.0])
def test_a_delay_may_be_text_or_a_float(client: AmqpClient, new_name: NewName, delay: Any) -> None:  # noqa: ANN401
    exchange, queue = delayed_exchange(client, new_name)
    publish_delayed(client, exchange, delay)
    assert client.ready_count(queue) == 0
    eventually(lambda: client.ready_count(queue) == 1)


def test_a_message_without_headers_is_there_at_once(client: AmqpClient, new_name: NewName) -> None:
    exchange, queue = delayed_exchange(client, new_name)
    assert reached(client, [queue], exchange, "k") == [queue]


@pytest.mark.parametrize("kind", ["fanout", "topic", "headers", "x-consistent-hash"])
def test_what_is_late_is_routed_as_by_the_type_below(
    client: AmqpClient, new_name: NewName, kind: str
) -> None:
    exchange, queue = new_name(), new_name()
    declare_exchange(client, exchange, DELAYED, {"x-delayed-type": kind})
    client.declare(queue)
    bind_queue(client, queue, exchange, "1")
    properties = Basic.Properties(headers={"x-delay": 100})
    client.publish(b"", "1", exchange, properties=properties)
    client.expect_confirmed()
    eventually(lambda: client.ready_count(queue) == 1)


@pytest.mark.parametrize("arguments", [None, {"x-delayed-type": "nonsense"}])
def test_the_type_below_must_be_one_that_there_is(
    client: AmqpClient,
    name: str,
    arguments: Any,  # noqa: ANN401
) -> None:
    client.send(Exchange.Declare(exchange=name, exchange_type=DELAYED, arguments=arguments))
    text = (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )
    expect_channel_error(client, 406, text, Exchange.Declare)
