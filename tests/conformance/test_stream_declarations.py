"""Streams are declared and deleted: arguments, properties and counts."""

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import publish_all
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.polling import eventually
from tests.conformance.queues import LOCKED, expect_declaration_refused, expect_refused
from tests.conformance.streams import (
    FIRST,
    declare_stream,
    expect_offsets,
    fill_stream,
    read_from,
)
from tests.conformance.typed_fields import Typed, send_declaration
from tests.conformance.wrong_types import NOT_INTEGERS, NOT_STRINGS, expect_types_refused

STREAM = Typed("S", "stream")
INTEGERS = ("x-max-length-bytes", "x-stream-max-segment-size-bytes", "x-initial-cluster-size")
NOT_OF_STREAMS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-quorum-initial-group-size",
    "x-queue-master-locator",
    "x-delivery-limit",
)


def expect_value_refused(
    client: AmqpClient, name: str, argument: str, value: Typed, said: str
) -> None:
    send_declaration(client, name, {"x-queue-type": STREAM, argument: value})
    expect_refused(client, f"invalid arg '{argument}' for queue '{name}' in vhost '/': {said}")


def expect_last_file_kept(client: AmqpClient, name: str) -> None:
    """Return when a stream gives what it was given: its last file stays, whatever its bounds."""
    fill_stream(client, name, 3)
    read_from(client, name, FIRST)
    assert expect_offsets(client, 3) == [0, 1, 2]


# Properties


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
def test_a_stream_has_one_set_of_properties(
    client: AmqpClient, name: str, properties: dict[str, bool], word: str
) -> None:
    expect_declaration_refused(
        client,
        name,
        f"invalid property '{word}' for {{}}",
        arguments={"x-queue-type": "stream"},
        **properties,
    )


# Arguments


@pytest.mark.parametrize("argument", NOT_OF_STREAMS)
def test_an_argument_of_other_queues_is_refused_whatever_its_value(
    client: AmqpClient, name: str, argument: str
) -> None:
    for value in ("a",) if argument == "x-dead-letter-exchange" else (1, "a"):
        expect_declaration_refused(
            client,
            name,
            f"invalid arg '{argument}' for {{}} of queue type rabbit_stream_queue",
            arguments={"x-queue-type": "stream", argument: value},
        )


def test_a_dead_letter_routing_key_is_refused(client: AmqpClient, name: str) -> None:
    expect_declaration_refused(
        client,
        name,
        "invalid arg 'x-dead-letter-routing-key' for {} of queue type rabbit_stream_queue",
        arguments={"x-queue-type": "stream", "x-dead-letter-routing-key": "key"},
    )


@pytest.mark.parametrize("argument", INTEGERS)
def test_an_integer_must_be_one(client: AmqpClient, name: str, argument: str) -> None:
    expect_types_refused(
        client, name, argument, "stream", NOT_INTEGERS, '"expected integer, got {}"'
    )


@pytest.mark.parametrize("argument", INTEGERS)
def test_an_integer_must_not_be_negative(client: AmqpClient, name: str, argument: str) -> None:
    expect_value_refused(client, name, argument, Typed("l", -1), "{value_negative,-1}")


def test_a_cluster_has_a_size(client: AmqpClient, name: str) -> None:
    expect_value_refused(client, name, "x-initial-cluster-size", Typed("I", 0), "{value_zero,0}")
    declare_stream(client, name, initial_cluster_size=3)


@pytest.mark.parametrize("value", [0, 1, 2**62])
def test_a_length_in_octets_may_be_any_number(client: AmqpClient, name: str, value: int) -> None:
    declare_stream(client, name, max_length_bytes=value)
    expect_last_file_kept(client, name)


@pytest.mark.parametrize("value", [0, 1, 100_000, 3_000_000_000])
def test_a_segment_may_have_any_size_up_to_three_gigabytes(
    client: AmqpClient, name: str, value: int
) -> None:
    declare_stream(client, name, stream_max_segment_size_bytes=value)
    argument = "x-stream-max-segment-size-bytes"
    asked = {"x-queue-type": "stream", argument: value + 1}
    said = f"received '{value + 1}' but current is '{value}'"
    expect_declaration_refused(
        client, name, f"inequivalent arg '{argument}' for {{}}: {said}", arguments=asked
    )


def test_a_stream_works_with_segments_of_any_size(client: AmqpClient, new_name: NewName) -> None:
    for value in (100_000, 3_000_000_000):
        name = new_name()
        declare_stream(client, name, stream_max_segment_size_bytes=value)
        expect_last_file_kept(client, name)


@differs_from_3_10("takes the declaration, and never confirms what is published to the stream")
@pytest.mark.parametrize("value", [0, 1])
def test_a_stream_works_with_segments_that_are_too_small(
    client: AmqpClient, name: str, value: int
) -> None:
    declare_stream(client, name, stream_max_segment_size_bytes=value)
    expect_last_file_kept(client, name)


@pytest.mark.parametrize("value", [3_000_000_001, 2**62])
def test_a_larger_segment_is_refused(client: AmqpClient, name: str, value: int) -> None:
    expect_declaration_refused(
        client,
        name,
        "Exceeded max value for x-stream-max-segment-size-bytes",
        arguments={"x-queue-type": "stream", "x-stream-max-segment-size-bytes": value},
    )


@pytest.mark.parametrize("value", ["1Y", "7D", "10M", "1h", "30m", "5s", "9" * 20 + "Y"])
def test_an_age_is_a_number_and_a_unit(client: AmqpClient, name: str, value: str) -> None:
    declare_stream(client, name, max_age=value)
    expect_last_file_kept(client, name)
    other = {"x-queue-type": "stream", "x-max-age": "2h"}
    said = f"inequivalent arg 'x-max-age' for {{}}: received '2h' but current is '{value}'"
    expect_declaration_refused(client, name, said, arguments=other)


@pytest.mark.parametrize("value", ["1", "1 h", "1hh", "1H", "1y", "1d", "1.5h", "0s", "1S"])
def test_another_age_is_refused(client: AmqpClient, name: str, value: str) -> None:
    expect_value_refused(client, name, "x-max-age", Typed("S", value), "invalid_max_age")


@differs_from_3_10("answers 541 and closes the connection")
@pytest.mark.parametrize("value", ["", "h", "-1h", " 1h", "one h"])
def test_an_age_that_begins_with_no_digit_is_refused_with_the_same_text(
    client: AmqpClient, name: str, value: str
) -> None:
    expect_value_refused(client, name, "x-max-age", Typed("S", value), "invalid_max_age")


def test_an_age_must_be_a_string(client: AmqpClient, name: str) -> None:
    for value, word in NOT_STRINGS:
        expect_value_refused(client, name, "x-max-age", value, f"{{unacceptable_type,{word}}}")


@pytest.mark.parametrize("value", ["client-local", "balanced", "random", "least-leaders"])
def test_a_leader_locator_is_taken(client: AmqpClient, name: str, value: str) -> None:
    declare_stream(client, name, queue_leader_locator=value)
    expect_last_file_kept(client, name)
    other = {"client-local": "balanced"}.get(value, "client-local")
    asked = {"x-queue-type": "stream", "x-queue-leader-locator": other}
    said = f"received '{other}' but current is '{value}'"
    said = f"inequivalent arg 'x-queue-leader-locator' for {{}}: {said}"
    expect_declaration_refused(client, name, said, arguments=asked)


def test_a_leader_locator_must_be_known(client: AmqpClient, name: str) -> None:
    said = "invalid_queue_locator_arg"
    expect_value_refused(client, name, "x-queue-leader-locator", Typed("S", "nearest"), said)
    for value, word in NOT_STRINGS:
        said = f"{{unacceptable_type,{word}}}"
        expect_value_refused(client, name, "x-queue-leader-locator", value, said)


@pytest.mark.parametrize("value", [16, 255])
def test_a_size_of_filters_is_taken(client: AmqpClient, name: str, value: int) -> None:
    declare_stream(client, name, stream_filter_size_bytes=value)
    expect_last_file_kept(client, name)
    # It is not compared, as in RabbitMQ.
    declare_stream(client, name, stream_filter_size_bytes=100)


@differs_from_3_10("knows no filters and takes any value")
@pytest.mark.parametrize("value", [15, 256])
def test_a_size_of_filters_has_bounds(client: AmqpClient, name: str, value: int) -> None:
    expect_declaration_refused(
        client,
        name,
        "Invalid value for  x-stream-filter-size-bytes",
        arguments={"x-queue-type": "stream", "x-stream-filter-size-bytes": value},
    )


def test_unknown_arguments_are_taken(client: AmqpClient, name: str) -> None:
    declare_stream(client, name, mine={"a": [1, None]}, consumer_timeout=60_000)
    expect_last_file_kept(client, name)
    declare_stream(client, name, mine="another")


# Declaring again


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-max-age": "60m"}, "x-max-age' for {}: received '60m' but current is '1h'"),
        ({}, "x-max-age' for {}: received none but current is the value '1h' of type 'longstr'"),
        (
            {"x-max-age": "1h", "x-max-length-bytes": 2**40},
            "x-max-length-bytes' for {}: received the value '1099511627776' of type 'long' "
            "but current is none",
        ),
        (
            {"x-max-age": "1h", "x-stream-max-segment-size-bytes": 2**40},
            "x-stream-max-segment-size-bytes' for {}: received the value '1099511627776' of type "
            "'long' but current is none",
        ),
        (
            {"x-max-age": "1h", "x-initial-cluster-size": 2**40},
            "x-initial-cluster-size' for {}: received the value '1099511627776' of type 'long' "
            "but current is none",
        ),
        (
            {"x-max-age": "1h", "x-queue-leader-locator": "random"},
            "x-queue-leader-locator' for {}: received the value 'random' of type 'longstr' "
            "but current is none",
        ),
    ],
    ids=["age", "none", "length", "segment", "cluster", "locator"],
)
def test_a_stream_declared_again_must_be_the_same(
    client: AmqpClient, name: str, arguments: dict[str, object], said: str
) -> None:
    declare_stream(client, name, max_age="1h")
    asked = {"x-queue-type": "stream", **arguments}
    expect_declaration_refused(client, name, f"inequivalent arg '{said}", arguments=asked)


def test_a_stream_declared_again_may_have_other_arguments_of_other_queues(
    client: AmqpClient, name: str
) -> None:
    declare_stream(client, name, max_age="1h")
    declare_stream(client, name, max_age="1h", expires=5, max_length=5)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("stream", None, "received none but current is the value 'stream' of type 'longstr'"),
        ("stream", "classic", "received 'classic' but current is 'stream'"),
        (None, "stream", "received the value 'stream' of type 'longstr' but current is none"),
    ],
)
def test_a_stream_is_no_other_kind_of_queue(
    client: AmqpClient, name: str, first: str | None, second: str | None, said: str
) -> None:
    client.declare(name, arguments={"x-queue-type": first} if first else {})
    expect_declaration_refused(
        client,
        name,
        f"inequivalent arg 'x-queue-type' for {{}}: {said}",
        arguments={"x-queue-type": second} if second else {},
    )


def test_a_stream_declared_again_must_have_the_same_properties(
    client: AmqpClient, name: str
) -> None:
    declare_stream(client, name)
    for properties, word in (({"durable": False}, "durable"), ({"auto_delete": True}, "auto_")):
        shown = ("false", "true") if word == "durable" else ("true", "false")
        argument = "durable" if word == "durable" else "auto_delete"
        expect_declaration_refused(
            client,
            name,
            f"inequivalent arg '{argument}' for {{}}: "
            f"received '{shown[0]}' but current is '{shown[1]}'",
            arguments={"x-queue-type": "stream"},
            **properties,
        )
    client.send(Queue.Declare(0, name, False, True, True, False, False, {"x-queue-type": "stream"}))
    expect_channel_error(client, 405, LOCKED.format(name), Queue.Declare)


# Counts and deletion


@differs(
    rabbitmq="a number of its statistics, seconds old",
    reason="a count in a reply should be right",
)
def test_the_messages_of_a_stream_are_counted_at_once(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    publish_all(client, name, [b"a", b"b"])
    assert client.ready_count(name) == 2


def test_the_messages_of_a_stream_are_counted_in_the_end(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    publish_all(client, name, [b"a", b"b"])
    eventually(lambda: client.ready_count(name) == 2)


@differs(rabbitmq="0, however many consume", reason="a count in a reply should be right")
def test_the_consumers_of_a_stream_are_counted(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    read_from(connect(), name, None)
    declared = client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk)
    assert declared.consumer_count == 1


def test_a_stream_cannot_be_purged(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    client.send(Queue.Purge(queue=name))
    expect_connection_error(
        client,
        540,
        f"NOT_IMPLEMENTED - queue.purge not supported by stream queues queue '{name}' in vhost '/'",
        Queue.Purge,
    )


@pytest.mark.parametrize("no_ack", [False, True])
def test_nothing_can_be_taken_from_a_stream(client: AmqpClient, name: str, no_ack: bool) -> None:
    declare_stream(client, name)
    client.send(Basic.Get(queue=name, no_ack=no_ack))
    expect_connection_error(
        client,
        540,
        f"NOT_IMPLEMENTED - basic.get not supported by stream queues queue '{name}' in vhost '/'",
        Basic.Get,
    )


def test_a_stream_can_be_deleted_with_all_that_is_in_it(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 2)
    client.call(Queue.Delete(queue=name), Queue.DeleteOk)
    declare_stream(client, name)
    read_from(client, name, FIRST)
    fill_stream(connect(), name, 1, first=7)
    assert client.expect_delivery().body == b"7"


@differs(rabbitmq="0, whatever is in it", reason="as for any other queue")
def test_the_deleted_messages_are_counted(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    publish_all(client, name, [b"a", b"b"])
    assert client.call(Queue.Delete(queue=name), Queue.DeleteOk).message_count == 2


@differs(rabbitmq="`if-empty` and `if-unused` are ignored", reason="the client asked for the check")
@pytest.mark.parametrize(
    ("condition", "said"), [("if_empty", "not empty"), ("if_unused", "in use")]
)
def test_a_stream_is_not_deleted_against_a_condition(
    client: AmqpClient, connect: Connect, name: str, condition: str, said: str
) -> None:
    declare_stream(client, name)
    publish_all(client, name, [b"a"])
    read_from(connect(), name, None)
    client.send(Queue.Delete(queue=name, **{condition: True}))
    expect_channel_error(
        client, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' {said}", Queue.Delete
    )


def test_the_consumers_of_a_deleted_stream_are_cancelled_and_may_still_answer(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    publish_all(client, name, [b"x"] * 5)
    for channel in (2, 3):
        client.open_channel(channel)
        tag = read_from(client, name, Typed("S", "first"), tag=f"c{channel}", channel=channel)
        for _ in range(5):
            client.expect_delivery(channel)
        assert tag == f"c{channel}"
    connect().call(Queue.Delete(queue=name), Queue.DeleteOk)
    # The order in which the channels are cancelled is not defined.
    cancelled = dict(client.receive() for _ in range(2))
    assert {getattr(each, "consumer_tag", each) for each in cancelled.values()} == {"c2", "c3"}
    for channel in (2, 3):
        client.send(Basic.Ack(2, multiple=True), channel)
        client.send(Basic.Nack(3), channel)
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, channel)
    declare_stream(client, name)
    assert client.ready_count(name) == 0
