"""x-single-active-consumer: the queue serves one of its consumers."""

from typing import Any

import pytest
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel, Queue
from pamqp.frame import marshal

from tests.amqp_client import AmqpClient, Message
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.polling import eventually
from tests.conformance.queues import (
    Arguments,
    await_ready_count,
    expect_declaration_refused,
    leave,
)

SINGLE = {"x-single-active-consumer": True}
QUORUM: Arguments = SINGLE | {"x-queue-type": "quorum"}
TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


def consume(
    client: AmqpClient, queue: str, tag: str, channel: int = 1, *, priority: int | None = None
) -> None:
    arguments: Any = {} if priority is None else {"x-priority": priority}
    method = Basic.Consume(queue=queue, consumer_tag=tag, arguments=arguments)
    client.call(method, Basic.ConsumeOk, channel)


def expect_nothing(client: AmqpClient, channel: int = 1) -> None:
    """See that no delivery is under way: the next answer is the next frame."""
    client.call(Basic.Qos(prefetch_count=0), Basic.QosOk, channel)


@TYPES
def test_only_the_first_consumer_gets_messages(
    connect: Connect, name: str, queue_type: str
) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE | {"x-queue-type": queue_type})
    consume(client, name, "first", channel=2)
    consume(client, name, "second", channel=3)
    for number in range(10):
        client.publish(str(number).encode(), name)
    taken = [client.expect_delivery(2) for _ in range(10)]
    assert [message.body for message in taken] == [str(n).encode() for n in range(10)]
    expect_nothing(client, 3)


def test_consumers_that_wait_are_counted(connect: Connect, name: str) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE)
    consume(client, name, "first", channel=2)
    consume(client, name, "second", channel=3)
    answer = client.call(Queue.Declare(queue=name, passive=True), Queue.DeclareOk)
    assert answer.consumer_count == 2


def test_a_prefetch_of_the_active_consumer_holds_the_queue(connect: Connect, name: str) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE)
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, 2)
    consume(client, name, "first", channel=2)
    consume(client, name, "second", channel=3)
    for body in (b"1", b"2"):
        client.publish(body, name)
    message = client.expect_delivery(2)
    await_ready_count(client, name, 1)
    client.send(Basic.Ack(message.tag), 2)
    assert client.expect_delivery(2).body == b"2"


@TYPES
def test_the_next_in_order_of_registration_follows_a_cancel(
    connect: Connect, name: str, queue_type: str
) -> None:
    client = connect(channels=4)
    client.declare(name, arguments=SINGLE | {"x-queue-type": queue_type})
    for channel in (2, 3, 4):
        consume(client, name, f"c{channel}", channel)
    client.call(Basic.Cancel("c2"), Basic.CancelOk, 2)
    client.publish(b"x", name)
    assert client.expect_delivery(3).body == b"x"
    client.call(Basic.Cancel("c3"), Basic.CancelOk, 3)
    client.publish(b"y", name)
    assert client.expect_delivery(4).body == b"y"


def test_the_cancel_of_one_that_waits_changes_nothing(connect: Connect, name: str) -> None:
    client = connect(channels=4)
    client.declare(name, arguments=SINGLE)
    for channel in (2, 3, 4):
        consume(client, name, f"c{channel}", channel)
    client.call(Basic.Cancel("c3"), Basic.CancelOk, 3)
    client.publish(b"x", name)
    assert client.expect_delivery(2).body == b"x"
    client.call(Basic.Cancel("c2"), Basic.CancelOk, 2)
    client.publish(b"y", name)
    assert client.expect_delivery(4).body == b"y"


@TYPES
def test_the_next_consumer_gets_the_unacked_messages_of_a_closed_channel(
    connect: Connect, name: str, queue_type: str
) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE | {"x-queue-type": queue_type})
    consume(client, name, "first", channel=2)
    consume(client, name, "second", channel=3)
    for body in (b"1", b"2", b"3"):
        client.publish(body, name)
    taken = [client.expect_delivery(2) for _ in range(3)]
    client.send(Basic.Ack(taken[0].tag), 2)
    client.send(Channel.Close(200, "", 0, 0), 2)
    again: list[bytes] = []
    is_closed = False
    while len(again) < 2 or not is_closed:
        number, frame = client.receive()
        is_closed = is_closed or isinstance(frame, Channel.CloseOk)
        if isinstance(frame, Basic.Deliver):
            assert (number, frame.redelivered) == (3, True)
        elif isinstance(frame, ContentBody):
            again.append(frame.value)
    assert again == [b"2", b"3"]


def test_the_next_follows_when_the_active_consumers_connection_is_lost(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments=SINGLE)
    active = connect()
    consume(active, name, "first")
    consume(client, name, "second")
    active.publish(b"x", name)
    active.expect_delivery()
    active.socket.close()
    message = client.expect_delivery()
    assert message.body == b"x"
    assert message.redelivered


def test_messages_can_still_be_got_from_a_classic_queue(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    client.declare(name, arguments=SINGLE)
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, 2)
    consume(client, name, "first", channel=2)
    for body in (b"1", b"2"):
        client.publish(body, name)
    client.expect_delivery(2)
    message = eventually(lambda: client.get(name))
    assert message is not None
    assert message.body == b"2"


def test_messages_cannot_be_got_from_a_quorum_queue(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments=SINGLE | {"x-queue-type": "quorum"})
    client.send(Basic.Get(queue=name))
    expect_channel_error(
        client,
        405,
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{name}' in vhost '/'. "
        "basic.get operations are not supported by quorum queues with single active consumer",
        Basic.Get,
    )


def expect_exclusive_refused(client: AmqpClient, queue: str) -> None:
    client.send(Basic.Consume(queue=queue, exclusive=True))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    expect_channel_error(client, 403, text, Basic.Consume)


@pytest.mark.parametrize("others", [0, 1])
def test_an_exclusive_consumer_is_refused(client: AmqpClient, name: str, others: int) -> None:
    client.declare(name, arguments=SINGLE)
    for _ in range(others):
        consume(client, name, "other")
    expect_exclusive_refused(client, name)


@differs(
    rabbitmq="takes it, and it waits like the others",
    reason="a client that asks to be alone relies on it",
)
@pytest.mark.parametrize("others", [0, 1])
def test_an_exclusive_consumer_of_a_quorum_queue_is_refused(
    client: AmqpClient, name: str, others: int
) -> None:
    client.declare(name, arguments=QUORUM)
    for _ in range(others):
        consume(client, name, "other")
    expect_exclusive_refused(client, name)


def test_false_is_as_if_it_were_not_asked_for(connect: Connect, name: str) -> None:
    client = connect(channels=3)
    client.declare(name, arguments={"x-single-active-consumer": False})
    for channel in (2, 3):
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, channel)
        consume(client, name, f"c{channel}", channel)
    for _ in range(2):
        client.publish(b"x", name)
    # A delivery is three frames.
    assert {client.receive()[0] for _ in range(6)} == {2, 3}


@TYPES
def test_the_argument_must_be_a_boolean(client: AmqpClient, name: str, queue_type: str) -> None:
    for value, word in (("true", "longstr"), (1, "byte"), (None, "void")):
        expect_declaration_refused(
            client,
            name,
            f"invalid arg 'x-single-active-consumer' for {{}}: {{{{unacceptable_type,{word}}}}}",
            arguments={"x-queue-type": queue_type, "x-single-active-consumer": value},
        )


@TYPES
@pytest.mark.parametrize(
    ("later", "difference"),
    [
        ({"x-single-active-consumer": False}, "received 'false' but current is 'true'"),
        ({}, "received none but current is the value 'true' of type 'bool'"),
    ],
    ids=["false", "none"],
)
def test_the_argument_must_be_the_same(
    client: AmqpClient, name: str, queue_type: str, later: Arguments, difference: str
) -> None:
    client.declare(name, arguments=SINGLE | {"x-queue-type": queue_type})
    expect_declaration_refused(
        client,
        name,
        f"inequivalent arg 'x-single-active-consumer' for {{}}: {difference}",
        arguments=later | {"x-queue-type": queue_type},
    )


def test_the_active_consumer_gets_what_it_requeues(connect: Connect, name: str) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE)
    consume(client, name, "first", channel=2)
    consume(client, name, "second", channel=3)
    client.publish(b"x", name)
    client.send(Basic.Nack(client.expect_delivery(2).tag, False, True), 2)
    assert client.expect_delivery(2).redelivered


@TYPES
def test_the_next_consumer_gets_what_a_cancelled_one_requeues(
    connect: Connect, name: str, queue_type: str
) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE | {"x-queue-type": queue_type})
    consume(client, name, "first", channel=2)
    consume(client, name, "second", channel=3)
    for body in (b"1", b"2"):
        client.publish(body, name)
        assert client.expect_delivery(2).body == body
    client.call(Basic.Cancel("first"), Basic.CancelOk, 2)
    expect_nothing(client, 3)  # unacknowledged, they stay with their channel
    client.publish(b"3", name)
    assert client.expect_delivery(3).body == b"3"
    client.send(Basic.Nack(0, True, True), 2)
    returned = [client.expect_delivery(3) for _ in range(2)]
    assert [(each.body, each.redelivered) for each in returned] == [(b"1", True), (b"2", True)]


def test_unacked_messages_of_the_active_consumer_are_redelivered_first_and_in_order(
    connect: Connect, name: str
) -> None:
    first, second = connect(), connect(confirms=True)
    second.declare(name, arguments=SINGLE)
    consume(first, name, "first")
    for number in range(5):
        second.publish(b"%d" % number, name)
    second.expect_confirmed()
    tags = [first.expect_delivery().tag for _ in range(5)]
    consume(second, name, "second")
    first.send(Basic.Ack(tags[1]))
    leave(first)
    second.publish(b"5", name)
    bodies: list[bytes] = []
    while len(bodies) < 5:
        _, frame = second.receive()
        if isinstance(frame, ContentBody):
            bodies.append(frame.value)
    assert bodies == [b"0", b"2", b"3", b"4", b"5"]


@differs_from_3_10("delivers with the next thing that happens to a classic queue")
def test_the_next_consumer_gets_ready_messages_at_once(connect: Connect, name: str) -> None:
    client = connect(channels=3, confirms=True)
    client.declare(name, arguments=SINGLE)
    for body in (b"1", b"2"):
        client.publish(body, name)
    client.expect_confirmed()
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk, 2)
    consume(client, name, "first", channel=2)
    client.expect_delivery(2)
    consume(client, name, "second", channel=3)
    client.call(Basic.Cancel("first"), Basic.CancelOk, 2)
    assert client.expect_delivery(3).body == b"2"


IN_ORDER = [b"%d" % number for number in range(30)]
ONE_BY_ONE = pytest.mark.parametrize("multiple", [True, False], ids=["multiple", "one by one"])


def taken_by_a_lower_one(
    connect: Connect, queue: str, arguments: Arguments
) -> tuple[AmqpClient, list[Message]]:
    """Return what a consumer on channel 2 has taken when a higher one on channel 3 has come."""
    client = connect(channels=3)
    client.declare(queue, arguments=arguments)
    consume(client, queue, "lower", channel=2)
    for body in IN_ORDER:
        client.publish(body, queue)
    messages = [client.expect_delivery(2) for _ in IN_ORDER]
    consume(client, queue, "higher", channel=3, priority=1)
    return client, messages


@ONE_BY_ONE
def test_the_active_consumer_of_a_classic_queue_gets_all_that_it_requeues_though_a_higher_one_waits(
    connect: Connect, name: str, multiple: bool
) -> None:
    client, messages = taken_by_a_lower_one(connect, name, SINGLE)
    if multiple:
        client.send(Basic.Nack(0, multiple=True, requeue=True), 2)
    else:
        octets = [marshal(Basic.Reject(message.tag, requeue=True), 2) for message in messages]
        client.send_raw(b"".join(octets))
    assert sorted(client.expect_delivery(2).body for _ in IN_ORDER) == sorted(IN_ORDER)
    expect_nothing(client, 2)
    client.send(Basic.Nack(0, multiple=True, requeue=True), 2)
    assert [client.expect_delivery(2).body for _ in IN_ORDER] == IN_ORDER
    expect_nothing(client, 3)


NO_PRIORITY = differs_from_3_10("the first to come is active until it goes, then the next to come")


class TestPrioritiesOfAQuorumQueue:
    @NO_PRIORITY
    def test_the_highest_follows(self, connect: Connect, name: str) -> None:
        client = connect(channels=4)
        client.declare(name, arguments=QUORUM)
        for channel, priority in ((2, 5), (3, 1), (4, 3)):
            consume(client, name, f"c{channel}", channel, priority=priority)
        client.call(Basic.Cancel("c2"), Basic.CancelOk, 2)
        client.publish(b"x", name)
        assert client.expect_delivery(4).body == b"x"

    @NO_PRIORITY
    def test_a_higher_one_takes_over_at_once_from_one_that_has_nothing(
        self, connect: Connect, name: str
    ) -> None:
        client = connect(channels=3)
        client.declare(name, arguments=QUORUM)
        consume(client, name, "lower", channel=2)
        consume(client, name, "higher", channel=3, priority=1)
        client.publish(b"x", name)
        assert client.expect_delivery(3).body == b"x"

    @NO_PRIORITY
    def test_a_higher_one_takes_over_when_all_deliveries_are_answered(
        self, connect: Connect, name: str
    ) -> None:
        client = connect(channels=3)
        client.declare(name, arguments=QUORUM)
        consume(client, name, "lower", channel=2)
        for body in (b"1", b"2"):
            client.publish(body, name)
        tags = [client.expect_delivery(2).tag for _ in range(2)]
        consume(client, name, "higher", channel=3, priority=1)
        client.publish(b"3", name)
        await_ready_count(client, name, 1)
        client.send(Basic.Ack(tags[1]), 2)
        expect_nothing(client, 2)
        client.send(Basic.Nack(tags[0], False, True), 2)
        assert [client.expect_delivery(3).body for _ in range(2)] == [b"1", b"3"]

    @NO_PRIORITY
    @ONE_BY_ONE
    def test_a_higher_one_gets_all_that_the_lower_one_requeues(
        self, connect: Connect, name: str, multiple: bool
    ) -> None:
        client, messages = taken_by_a_lower_one(connect, name, QUORUM)
        if not multiple:
            for message in messages[:0:-1]:
                client.send(Basic.Reject(message.tag, requeue=True), 2)
                expect_nothing(client, 2)
        client.send(Basic.Nack(0, multiple=True, requeue=True), 2)
        assert [client.expect_delivery(3).body for _ in range(30)] == IN_ORDER
        expect_nothing(client, 2)
        expect_nothing(client, 3)

    def test_the_lower_one_is_active_again_when_the_higher_one_is_cancelled(
        self, connect: Connect, name: str
    ) -> None:
        client = connect(channels=3)
        client.declare(name, arguments=QUORUM)
        consume(client, name, "lower", channel=2)
        consume(client, name, "higher", channel=3, priority=1)
        client.call(Basic.Cancel("higher"), Basic.CancelOk, 3)
        client.publish(b"x", name)
        assert client.expect_delivery(2).body == b"x"


def test_a_higher_one_waits_on_a_classic_queue(connect: Connect, name: str) -> None:
    client = connect(channels=3)
    client.declare(name, arguments=SINGLE)
    consume(client, name, "lower", channel=2)
    consume(client, name, "higher", channel=3, priority=1)
    client.publish(b"x", name)
    assert client.expect_delivery(2).body == b"x"


def test_of_those_that_wait_on_a_classic_queue_the_highest_and_oldest_follows(
    connect: Connect, name: str
) -> None:
    client = connect(channels=6)
    client.declare(name, arguments=SINGLE)
    priorities = {"a": 0, "b": 0, "c": 1, "d": 1, "e": -1}
    for channel, (tag, priority) in enumerate(priorities.items(), 2):
        consume(client, name, tag, channel, priority=priority)
    for channel, expected in ((2, "a"), (4, "c"), (5, "d"), (3, "b"), (6, "e")):
        client.publish(b"", name)
        method = client.expect_delivery(channel).method
        assert isinstance(method, Basic.Deliver)
        assert method.consumer_tag == expected
        client.call(Basic.Cancel(expected), Basic.CancelOk, channel)
