"""Consumers of a stream filter its messages; RabbitMQ has filters since 3.13."""

from typing import Any

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, Message
from tests.conformance.conftest import Connect
from tests.conformance.consuming import expect_quiet, prefetch
from tests.conformance.marks import ours_only
from tests.conformance.queues import expect_refused
from tests.conformance.streams import (
    FIRST,
    PUBLISHING_CHANNEL,
    declare_stream,
    offset_of,
    read_from,
    send_consume,
)
from tests.conformance.typed_fields import Typed

pytestmark = ours_only("3.10 knows no filters, and from 3.13 on they are not exact")

RED = Typed("S", "red")
YES = Typed("t", True)


def strings(*values: str) -> Typed:
    return Typed("A", [Typed("S", value) for value in values])


def publish_values(client: AmqpClient, stream: str, *values: object) -> None:
    """Publish a message for each value; None is none. Bodies say their offsets."""
    client.open_channel(PUBLISHING_CHANNEL, confirms=True)
    for number, value in enumerate(values):
        headers: Any = {} if value is None else {"x-stream-filter-value": value}
        properties = Basic.Properties(headers={"other": number, **headers})
        client.publish(b"%d" % number, stream, properties=properties, channel=PUBLISHING_CHANNEL)
    client.expect_confirmed(PUBLISHING_CHANNEL)


def take(client: AmqpClient, count: int) -> list[int]:
    """Return the offsets of the next deliveries; no more follow."""
    messages: list[Message] = [client.expect_delivery() for _ in range(count)]
    offsets = [offset_of(message) for message in messages]
    assert [message.body for message in messages] == [b"%d" % offset for offset in offsets]
    return offsets


@pytest.fixture
def stream(client: AmqpClient, connect: Connect, name: str) -> str:
    """Declare a stream with messages of three values, and some without."""
    declare_stream(client, name)
    publish_values(connect(), name, "red", "blue", None, "red", "", "green", None, "red")
    return name


@pytest.mark.parametrize(
    ("asked", "offsets"),
    [
        ({"stream_filter": RED}, [0, 3, 7]),
        ({"stream_filter": strings("red")}, [0, 3, 7]),
        ({"stream_filter": strings("red", "green")}, [0, 3, 5, 7]),
        ({"stream_filter": RED, "stream_match_unfiltered": YES}, [0, 2, 3, 6, 7]),
        ({"stream_filter": RED, "stream_match_unfiltered": Typed("t", False)}, [0, 3, 7]),
        ({"stream_filter": strings(), "stream_match_unfiltered": YES}, [2, 6]),
        ({"stream_filter": Typed("S", "")}, [4]),
        ({"stream_filter": Typed("S", "Red")}, []),
        ({"stream_filter": strings()}, []),
        ({"stream_match_unfiltered": YES}, list(range(8))),
    ],
)
def test_a_consumer_gets_exactly_the_messages_of_its_filter(
    client: AmqpClient, stream: str, asked: dict[str, Any], offsets: list[int]
) -> None:
    read_from(client, stream, FIRST, **asked)
    assert take(client, len(offsets)) == offsets
    expect_quiet(client, stream)


def test_a_filter_begins_where_its_consumer_does(client: AmqpClient, stream: str) -> None:
    read_from(client, stream, Typed("l", 1), stream_filter=RED)
    assert take(client, 2) == [3, 7]


def test_later_messages_are_filtered_too(client: AmqpClient, connect: Connect, name: str) -> None:
    declare_stream(client, name)
    read_from(client, name, None, stream_filter=RED)
    publish_values(connect(), name, "blue", "red", "blue", "red")
    assert take(client, 2) == [1, 3]
    expect_quiet(client, name)


def test_filtered_messages_use_no_credit(client: AmqpClient, connect: Connect, name: str) -> None:
    declare_stream(client, name)
    values = ["red" if number % 7 == 0 else "blue" for number in range(700)]
    publish_values(connect(), name, *values)
    read_from(client, name, FIRST, count=3, stream_filter=RED)
    assert take(client, 3) == [0, 7, 14]
    expect_quiet(client, name)
    client.send(Basic.Ack(2, True))
    assert take(client, 2) == [21, 28]
    client.send(Basic.Ack(0, True))
    for number in range(5, 100):
        message = client.expect_delivery()
        assert offset_of(message) == 7 * number
        client.send(Basic.Ack(message.tag))


def test_consumers_of_one_stream_have_different_filters(
    client: AmqpClient, connect: Connect, stream: str
) -> None:
    other = connect()
    read_from(client, stream, FIRST, stream_filter=RED)
    read_from(other, stream, FIRST)
    assert take(client, 3) == [0, 3, 7]
    assert take(other, 8) == list(range(8))


@pytest.mark.parametrize("value", [5, True, 1.5, ["red"], {"a": "red"}])
def test_a_value_that_is_no_string_counts_as_none(
    client: AmqpClient, connect: Connect, name: str, value: object
) -> None:
    declare_stream(client, name)
    publish_values(connect(), name, value, "red")
    read_from(client, name, FIRST, stream_filter=RED)
    assert take(client, 1) == [1]
    expect_quiet(client, name)
    client.send(Basic.Ack(0, True))
    read_from(client, name, FIRST, stream_filter=RED, stream_match_unfiltered=YES)
    assert take(client, 2) == [0, 1]


def test_the_filter_value_is_delivered_with_the_message(client: AmqpClient, stream: str) -> None:
    read_from(client, stream, FIRST, stream_filter=RED)
    assert client.expect_delivery().properties.headers == {
        "other": 0,
        "x-stream-filter-value": "red",
        "x-stream-offset": 0,
    }


# Values of other types


@pytest.mark.parametrize("value", [Typed("l", 5), YES, Typed("F", {}), Typed("V", None)])
def test_a_filter_of_another_type_is_ignored(
    client: AmqpClient, connect: Connect, name: str, value: Typed
) -> None:
    declare_stream(client, name)
    publish_values(connect(), name, "red", "blue")
    read_from(client, name, FIRST, stream_filter=value)
    assert take(client, 2) == [0, 1]


def test_a_value_of_another_type_in_an_array_is_passed_over(
    client: AmqpClient, stream: str
) -> None:
    read_from(client, stream, FIRST, stream_filter=Typed("A", [Typed("l", 5), RED]))
    assert take(client, 1) == [0]


@pytest.mark.parametrize("value", [Typed("S", "true"), Typed("l", 1)])
def test_only_a_boolean_selects_messages_without_a_value(
    client: AmqpClient, connect: Connect, name: str, value: Typed
) -> None:
    declare_stream(client, name)
    publish_values(connect(), name, None, "red")
    read_from(client, name, FIRST, stream_filter=RED, stream_match_unfiltered=value)
    assert take(client, 1) == [1]


@pytest.mark.parametrize("argument", ["x-stream-filter", "x-stream-match-unfiltered"])
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_only_streams_have_filters(
    client: AmqpClient, name: str, argument: str, queue_type: str
) -> None:
    client.declare(name, arguments={"x-queue-type": queue_type})
    send_consume(client, name, {argument: YES})
    said = f"invalid arg '{argument}' for queue '{name}' in vhost '/' of queue type "
    expect_refused(client, f"{said}rabbit_{queue_type}_queue", Basic.Consume)


@pytest.mark.parametrize(
    ("other", "value", "argument", "said"),
    [
        (
            "x-consumer-group",
            Typed("S", "mine"),
            "x-stream-filter",
            "members of a consumer group cannot have a filter",
        ),
        ("x-browse", YES, "x-browse", "a consumer that browses cannot have x-stream-filter"),
    ],
)
def test_only_consumers_of_their_own_have_a_filter(
    client: AmqpClient, stream: str, other: str, value: Typed, argument: str, said: str
) -> None:
    prefetch(client, 5)
    send_consume(client, stream, {"x-stream-filter": RED, other: value})
    refused = f"invalid arg '{argument}' for queue '{stream}' in vhost '/': {said}"
    expect_refused(client, refused, Basic.Consume)
