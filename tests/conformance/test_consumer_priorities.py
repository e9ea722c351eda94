"""Consumers with a higher `x-priority` are served first."""

from typing import Any

import pytest
from pamqp import frame
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.consuming import consume, prefetch, publish_all
from tests.conformance.errors import expect_channel_error


@pytest.fixture
def publisher(connect: Connect) -> AmqpClient:
    """Open another connection."""
    return connect()


def consume_with(client: AmqpClient, queue: str, priorities: dict[str, int | None]) -> None:
    """Begin consumers with these tags and priorities."""
    client.declare(queue)
    for tag, priority in priorities.items():
        arguments = None if priority is None else {"x-priority": priority}
        consume(client, queue, tag, arguments=arguments)


def receivers(client: AmqpClient, count: int) -> list[str]:
    """Return which consumers get the next messages, the first first."""
    tags = []
    for _ in range(count):
        method = client.expect_delivery().method
        assert isinstance(method, Basic.Deliver)
        assert method.consumer_tag
        tags.append(method.consumer_tag)
    return tags


def test_the_highest_gets_everything_while_it_can(
    client: AmqpClient, publisher: AmqpClient, name: str
) -> None:
    consume_with(client, name, {"low": -1, "none": None, "high": 10, "middle": 5})
    publish_all(publisher, name, [b""] * 20)
    assert receivers(client, 20) == ["high"] * 20


def test_the_next_priority_gets_messages_beyond_the_credit_of_the_higher_one(
    client: AmqpClient, publisher: AmqpClient, name: str
) -> None:
    prefetch(client, 2)
    consume_with(client, name, {"low": -1, "none": None, "high": 10, "middle": 5})
    publish_all(publisher, name, [b""] * 10)
    assert receivers(client, 8) == ["high"] * 2 + ["middle"] * 2 + ["none"] * 2 + ["low"] * 2


def test_the_highest_is_served_first_again_when_it_has_room(
    client: AmqpClient, publisher: AmqpClient, name: str
) -> None:
    prefetch(client, 1)
    consume_with(client, name, {"low": 1, "high": 2})
    publish_all(publisher, name, [b""] * 2)
    assert receivers(client, 2) == ["high", "low"]
    client.send(Basic.Ack(0, True))
    publish_all(publisher, name, [b""])
    assert receivers(client, 1) == ["high"]


def test_equals_take_turns(client: AmqpClient, publisher: AmqpClient, name: str) -> None:
    consume_with(client, name, {"low": 0, "one": 3, "two": 3})
    seen: list[str] = []
    for _ in range(6):
        publish_all(publisher, name, [b""])
        seen += receivers(client, 1)
    assert seen == ["one", "two"] * 3


def test_no_priority_is_zero(client: AmqpClient, publisher: AmqpClient, name: str) -> None:
    consume_with(client, name, {"none": None, "zero": 0, "below": -1})
    seen: list[str] = []
    for _ in range(4):
        publish_all(publisher, name, [b""])
        seen += receivers(client, 1)
    assert seen == ["none", "zero"] * 2


def test_the_next_takes_over_when_the_highest_is_cancelled(
    client: AmqpClient, publisher: AmqpClient, name: str
) -> None:
    consume_with(client, name, {"low": 1, "high": 2})
    client.call(Basic.Cancel("high"), Basic.CancelOk)
    publish_all(publisher, name, [b""])
    assert receivers(client, 1) == ["low"]


def publish_then(client: AmqpClient, queue: str, *methods: Basic.Cancel | Basic.Consume) -> None:
    """Publish two messages before, between and after these methods, all in one write."""
    two = 2 * client.publish_octets(Basic.Publish(routing_key=queue), b"", Basic.Properties())
    client.send_raw(two.join([b"", *(frame.marshal(method, 1) for method in methods), b""]))


def test_messages_before_a_cancel_go_to_the_cancelled_consumer(
    client: AmqpClient, name: str
) -> None:
    consume_with(client, name, {"low": 0, "middle": 1, "high": 2})
    publish_then(client, name, Basic.Cancel("high", nowait=True), Basic.Cancel("middle", True))
    assert receivers(client, 6) == ["high"] * 2 + ["middle"] * 2 + ["low"] * 2


def test_the_last_consumer_gets_messages_before_its_cancel(client: AmqpClient, name: str) -> None:
    consume_with(client, name, {"only": 0})
    publish_then(client, name, Basic.Cancel("only"))
    assert receivers(client, 2) == ["only"] * 2
    client.expect(Basic.CancelOk)
    assert client.ready_count(name) == 2


def test_a_higher_one_gets_nothing_that_came_before_it(client: AmqpClient, name: str) -> None:
    consume_with(client, name, {"low": 1})
    consumer = Basic.Consume(0, name, "high", nowait=True, arguments={"x-priority": 2})
    publish_then(client, name, consumer)
    assert receivers(client, 4) == ["low"] * 2 + ["high"] * 2


def test_a_higher_one_that_comes_later_is_served_first(
    client: AmqpClient, publisher: AmqpClient, name: str
) -> None:
    consume_with(client, name, {"low": 1})
    publish_all(publisher, name, [b""])
    assert receivers(client, 1) == ["low"]
    consume(client, name, "high", arguments={"x-priority": 2})
    publish_all(publisher, name, [b""])
    assert receivers(client, 1) == ["high"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1", "longstr"),
        (1.5, "float"),
        (True, "bool"),
        (None, "void"),
        ([1], "array"),
        ({"a": 1}, "table"),
    ],
)
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_it_must_be_an_integer(
    client: AmqpClient,
    name: str,
    queue_type: str,
    value: Any,  # noqa: ANN401
    kind: str,
) -> None:
    client.declare(name, arguments={"x-queue-type": queue_type})
    client.send(Basic.Consume(queue=name, arguments={"x-priority": value}))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{name}' in vhost '/': "
        f'"expected integer, got {kind}"'
    )
    expect_channel_error(client, 406, text, Basic.Consume)


@pytest.mark.parametrize("value", [1 << 40, -(1 << 40), 255, -128])
def test_it_may_be_any_integer(client: AmqpClient, name: str, value: int) -> None:
    client.declare(name)
    consume(client, name, "without")
    consume(client, name, "with", arguments={"x-priority": value})
    for _ in range(3):
        client.publish(b"x", name)
        method = client.expect_delivery().method
        assert isinstance(method, Basic.Deliver)
        assert method.consumer_tag == ("with" if value > 0 else "without")


def test_a_wrong_argument_is_reported_before_an_exclusive_consumer(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    owner = connect()
    owner.declare(name)
    consume(owner, name, exclusive=True)
    client.send(Basic.Consume(queue=name, exclusive=True, arguments={"x-priority": "high"}))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{name}' in vhost '/': "
        '"expected integer, got longstr"'
    )
    expect_channel_error(client, 406, text, Basic.Consume)
