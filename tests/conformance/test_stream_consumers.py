"""Consumers of streams: what they must ask for, and what their acks do."""

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Connection, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import expect_bodies, expect_quiet, fill, prefetch
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.marks import differs_from_3_10
from tests.conformance.queues import expect_refused
from tests.conformance.streams import (
    FIRST,
    ack_up_to,
    declare_stream,
    expect_offsets,
    fill_stream,
    fill_stream_at_once,
    read_from,
    send_consume,
)
from tests.conformance.typed_fields import Typed

# Who may consume


def test_a_consumer_of_a_stream_needs_a_prefetch_limit(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    send_consume(client, name)
    said = f"consumer prefetch count is not set for 'queue '{name}' in vhost '/''"
    expect_refused(client, said, Basic.Consume)
    # The limit of a channel is not one.
    prefetch(client, 5, globally=True)
    send_consume(client, name, no_ack=True)
    expect_refused(client, said, Basic.Consume)


def test_a_consumer_of_a_stream_must_acknowledge(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    prefetch(client, 5)
    send_consume(client, name, no_ack=True)
    expect_connection_error(
        client,
        540,
        "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues "
        f"queue '{name}' in vhost '/'",
        Basic.Consume,
    )


def test_a_consumer_of_a_stream_takes_no_limit_of_its_channel(
    client: AmqpClient, name: str
) -> None:
    declare_stream(client, name)
    prefetch(client, 5)
    prefetch(client, 5, globally=True)
    send_consume(client, name)
    expect_connection_error(
        client,
        540,
        f"NOT_IMPLEMENTED - queue '{name}' in vhost '/' does not support global qos",
        Basic.Consume,
    )


def test_a_priority_of_a_consumer_is_refused(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    prefetch(client, 5)
    send_consume(client, name, {"x-priority": Typed("l", 5)})
    said = f"invalid arg 'x-priority' for queue '{name}' in vhost '/' of queue type rabbit_stream_"
    expect_refused(client, f"{said}queue", Basic.Consume)


@pytest.mark.parametrize("value", [FIRST, Typed("t", True)], ids=["offset", "boolean"])
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_other_queues_refuse_a_stream_offset(
    client: AmqpClient, name: str, queue_type: str, value: Typed
) -> None:
    client.declare(name, arguments={"x-queue-type": queue_type})
    send_consume(client, name, {"x-stream-offset": value})
    said = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '/' of queue type "
    expect_refused(client, f"{said}rabbit_{queue_type}_queue", Basic.Consume)


def test_unknown_arguments_are_taken(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 2)
    read_from(client, name, FIRST, mine=Typed("A", []))
    assert expect_offsets(client, 2) == [0, 1]


def test_an_exclusive_consumer_of_a_stream_is_not_alone(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 1)
    for each in (client, connect(), connect()):
        prefetch(each, 5)
        send_consume(each, name, {"x-stream-offset": FIRST}, exclusive=True)
        each.expect(Basic.ConsumeOk)
        assert expect_offsets(each, 1) == [0]


# Who gets what


def test_every_consumer_of_a_stream_gets_all_of_it(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 3)
    others = [connect(), connect()]
    for each in (client, *others):
        read_from(each, name, FIRST)
        assert expect_offsets(each, 3) == [0, 1, 2]
    fill_stream(connect(), name, 2, first=3)
    for each in (client, *others):
        assert expect_offsets(each, 2) == [3, 4]


def test_consumers_of_one_channel_read_independently(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 3)
    read_from(client, name, FIRST, tag="one")
    assert expect_offsets(client, 3) == [0, 1, 2]
    read_from(client, name, Typed("l", 1), tag="two")
    deliveries = [client.expect_delivery() for _ in range(2)]
    assert [each.tag for each in deliveries] == [4, 5]
    assert [each.body for each in deliveries] == [b"1", b"2"]


def test_consumed_messages_stay_for_the_next_consumer(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 3)
    tag = read_from(client, name, FIRST)
    assert expect_offsets(client, 3) == [0, 1, 2]
    ack_up_to(client, 3)
    client.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk)
    read_from(client, name, FIRST)
    messages = [client.expect_delivery() for _ in range(3)]
    assert [(message.body, message.redelivered) for message in messages] == [
        (b"0", False),
        (b"1", False),
        (b"2", False),
    ]


def test_a_consumer_gets_as_much_as_it_answers(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 8)
    read_from(client, name, FIRST, count=3)
    assert expect_offsets(client, 3) == [0, 1, 2]
    expect_quiet(client, name)
    ack_up_to(client, 2)
    assert expect_offsets(client, 2) == [3, 4]
    expect_quiet(client, name)
    client.send(Basic.Ack(4))
    assert expect_offsets(client, 1) == [5]
    ack_up_to(client, 0)
    assert expect_offsets(client, 2) == [6, 7]


@differs_from_3_10("delivers what was confirmed together (a chunk) together, past the limit")
def test_the_limit_holds_for_messages_that_were_published_together(
    client: AmqpClient, name: str
) -> None:
    declare_stream(client, name)
    fill_stream_at_once(client, name, 50)
    read_from(client, name, FIRST, count=3)
    assert expect_offsets(client, 3) == [0, 1, 2]
    expect_quiet(client, name)


def test_an_answer_to_a_delivery_can_be_given_once(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 3)
    read_from(client, name, FIRST)
    assert expect_offsets(client, 3) == [0, 1, 2]
    client.send(Basic.Ack(2))
    client.send(Basic.Ack(2))
    expect_refused(client, "unknown delivery tag 2", Basic.Ack)


@differs_from_3_10("answers 540 (541 to basic.recover) and closes the connection")
@pytest.mark.parametrize(
    "method",
    [
        Basic.Nack(2, True, True),
        Basic.Nack(2, True, False),
        Basic.Reject(2, True),
        Basic.Reject(2, False),
        Basic.Recover(True),
    ],
    ids=["nack", "nack-away", "reject", "reject-away", "recover"],
)
def test_no_answer_to_a_delivery_of_a_stream_brings_it_again(
    client: AmqpClient, name: str, method: Frame
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 3)
    read_from(client, name, FIRST, count=2)
    assert expect_offsets(client, 2) == [0, 1]
    client.send(method)
    if isinstance(method, Basic.Recover):
        client.expect(Basic.RecoverOk)
    message = client.expect_delivery()
    assert (message.body, message.redelivered) == (b"2", False)
    expect_quiet(client, name)


def test_nothing_comes_after_a_consumer_is_cancelled(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    tag = read_from(client, name, None)
    client.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk)
    fill_stream(connect(), name, 2)
    expect_quiet(client, name)


def test_a_consumer_may_answer_after_it_was_cancelled(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 2)
    tag = read_from(client, name, FIRST)
    assert expect_offsets(client, 2) == [0, 1]
    client.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk)
    ack_up_to(client, 2)
    client.send(Basic.Recover(True))
    client.expect(Basic.RecoverOk)
    expect_quiet(client, name)


def test_the_deliveries_of_a_lost_client_go_to_no_other_consumer(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 2)
    lost = connect()
    read_from(lost, name, FIRST)
    assert expect_offsets(lost, 2) == [0, 1]
    read_from(client, name, None)
    lost.socket.close()
    fill_stream(connect(), name, 1, first=2)
    assert expect_offsets(client, 1) == [2]


def test_a_consumer_sees_the_answer_before_the_first_delivery(
    client: AmqpClient, name: str
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 2)
    prefetch(client, 5)
    send_consume(client, name, {"x-stream-offset": FIRST})
    client.expect(Basic.ConsumeOk)
    assert expect_bodies(client, 2) == [b"0", b"1"]


def test_one_channel_consumes_from_streams_and_other_queues(
    client: AmqpClient, new_name: NewName
) -> None:
    name, queue = new_name(), new_name()
    declare_stream(client, name)
    fill_stream(client, name, 2)
    fill(client, queue, 2)
    read_from(client, name, FIRST)
    assert expect_bodies(client, 2) == [b"0", b"1"]
    client.call(Basic.Consume(queue=queue), Basic.ConsumeOk)
    assert expect_bodies(client, 2) == [b"0", b"1"]
    ack_up_to(client, 0)
    client.call(Queue.Declare(queue=queue, passive=True), Queue.DeclareOk)
    client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)


def test_a_tag_cannot_be_used_twice(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    read_from(client, name, None, tag="mine")
    send_consume(client, name, tag="mine")
    said = "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"
    expect_connection_error(client, 530, said, Basic.Consume)


def test_consuming_from_a_missing_stream_is_an_error(client: AmqpClient, name: str) -> None:
    prefetch(client, 5)
    send_consume(client, name, {"x-stream-offset": FIRST})
    said = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    expect_channel_error(client, 404, said, Basic.Consume)
