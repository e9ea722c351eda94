"""Messages enter a stream by every way and are delivered unchanged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Confirm, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, Message
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import expect_quiet, fill, publish_all
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.streams import (
    FIRST,
    declare_stream,
    expect_offsets,
    fill_stream,
    offset_of,
    read_from,
)


def publish_one(client: AmqpClient, stream: str, properties: Basic.Properties) -> None:
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"body", stream, properties=properties)
    client.expect_confirmed()


def first_message(client: AmqpClient, stream: str) -> Message:
    read_from(client, stream, FIRST)
    return client.expect_delivery()


# Properties


def test_properties_come_back(client: AmqpClient, connect: Connect, name: str) -> None:
    declare_stream(client, name)
    headers: dict[str, Any] = {"text": "one", "number": 1, "truth": True}
    given: dict[str, Any] = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "correlation",
        "reply_to": "reply",
        "expiration": "1",
        "message_id": "message",
        "timestamp": datetime(2020, 1, 1, tzinfo=UTC),
        "message_type": "type",
        "user_id": "guest",
        "app_id": "app",
    }
    publish_one(client, name, Basic.Properties(headers=headers, **given))
    message = first_message(connect(), name)
    got = {key: value for key, value in message.properties if value}
    assert got.pop("headers") == {**headers, "x-stream-offset": 0}
    assert got == given
    assert (message.method.exchange, message.method.routing_key) == ("", name)
    assert message.body == b"body"


def test_a_message_without_properties_has_its_offset(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    publish_one(client, name, Basic.Properties())
    message = first_message(connect(), name)
    assert message.properties.headers == {"x-stream-offset": 0}
    assert message.properties.delivery_mode is None


def test_an_offset_that_a_client_wrote_is_replaced(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    publish_one(client, name, Basic.Properties(headers={"x-stream-offset": "mine", "other": 1}))
    message = first_message(connect(), name)
    assert message.properties.headers == {"x-stream-offset": 0, "other": 1}


@differs(
    rabbitmq="loses arrays and tables: streams hold messages of AMQP 1.0",
    reason="what a client sent comes back",
)
def test_headers_of_any_type_come_back(client: AmqpClient, connect: Connect, name: str) -> None:
    headers: dict[str, Any] = {
        "array": [1, "two"],
        "table": {"in": {"side": [True]}},
        "x-death": [{"count": 1}],
    }
    declare_stream(client, name)
    publish_one(client, name, Basic.Properties(headers=headers))
    message = first_message(connect(), name)
    assert message.properties.headers == {**headers, "x-stream-offset": 0}


@pytest.mark.parametrize("delivery_mode", [None, 1, 2])
def test_a_message_is_kept_whatever_its_delivery_mode(
    client: AmqpClient, connect: Connect, name: str, delivery_mode: int | None
) -> None:
    declare_stream(client, name)
    publish_one(client, name, Basic.Properties(delivery_mode=delivery_mode))
    assert first_message(connect(), name).properties.delivery_mode == delivery_mode


def test_nothing_in_a_stream_expires(client: AmqpClient, connect: Connect, name: str) -> None:
    declare_stream(client, name)
    for expiration in ("0", "1", "60000"):
        publish_one(client, name, Basic.Properties(expiration=expiration))
    reader = connect()
    read_from(reader, name, FIRST)
    messages = [reader.expect_delivery() for _ in range(3)]
    assert [message.properties.expiration for message in messages] == ["0", "1", "60000"]


def test_large_messages_come_whole(client: AmqpClient, connect: Connect, name: str) -> None:
    bodies = [bytes([number]) * 300_000 for number in range(5)]
    declare_stream(client, name)
    publish_all(client, name, bodies)
    reader = connect()
    read_from(reader, name, FIRST)
    messages = [reader.expect_delivery() for _ in bodies]
    assert [message.body for message in messages] == bodies
    assert [offset_of(message) for message in messages] == list(range(5))


# Routing


def test_a_message_is_in_a_stream_and_in_other_queues(
    client: AmqpClient, connect: Connect, new_name: NewName
) -> None:
    stream, queue, exchange = new_name(), new_name(), new_name()
    declare_stream(client, stream)
    client.declare(queue)
    client.call(Exchange.Declare(exchange=exchange, exchange_type="fanout"), Exchange.DeclareOk)
    for each in (stream, queue):
        client.call(Queue.Bind(queue=each, exchange=exchange), Queue.BindOk)
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"both", "key", exchange)
    client.expect_confirmed()
    taken = client.get(queue)
    assert taken is not None
    assert taken.properties.headers is None
    message = first_message(connect(), stream)
    assert (message.body, message.method.exchange, message.method.routing_key) == (
        b"both",
        exchange,
        "key",
    )


def test_a_mandatory_message_for_a_stream_is_not_returned(client: AmqpClient, name: str) -> None:
    declare_stream(client, name)
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"", name, mandatory=True)
    client.expect_confirmed()


def test_copies_go_into_streams(client: AmqpClient, connect: Connect, new_name: NewName) -> None:
    streams = [new_name() for _ in range(3)]
    for stream in streams:
        declare_stream(client, stream)
    headers: dict[str, Any] = {"CC": [streams[1]], "BCC": [streams[2]]}
    publish_one(client, streams[0], Basic.Properties(headers=headers))
    for stream in streams:
        message = first_message(connect(), stream)
        assert message.body == b"body"
        assert message.properties.headers is not None
        assert "BCC" not in message.properties.headers


def test_unrouted_messages_may_go_into_a_stream(
    client: AmqpClient, connect: Connect, new_name: NewName
) -> None:
    stream, exchange, alternate = new_name(), new_name(), new_name()
    declare_stream(client, stream)
    client.call(Exchange.Declare(exchange=alternate, exchange_type="fanout"), Exchange.DeclareOk)
    client.call(Queue.Bind(queue=stream, exchange=alternate), Queue.BindOk)
    declared = Exchange.Declare(
        exchange=exchange, exchange_type="direct", arguments={"alternate-exchange": alternate}
    )
    client.call(declared, Exchange.DeclareOk)
    client.call(Confirm.Select(), Confirm.SelectOk)
    client.publish(b"lost", "key", exchange)
    client.expect_confirmed()
    assert first_message(connect(), stream).body == b"lost"


@differs_from_3_10("loses them")
def test_dead_letters_may_go_into_a_stream(
    client: AmqpClient, connect: Connect, new_name: NewName
) -> None:
    stream, queue = new_name(), new_name()
    declare_stream(client, stream)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    fill(client, queue, 2, arguments=arguments)
    reader = connect()
    read_from(reader, stream, FIRST)
    client.consume(queue, prefetch=5)
    for _ in range(2):
        client.send(Basic.Reject(client.expect_delivery().tag, False))
    messages = [reader.expect_delivery() for _ in range(2)]
    assert [message.body for message in messages] == [b"0", b"1"]
    assert [offset_of(message) for message in messages] == [0, 1]


# Confirms and transactions


def test_confirmed_messages_can_be_read(client: AmqpClient, connect: Connect, name: str) -> None:
    declare_stream(client, name)
    reader = connect()
    read_from(reader, name, FIRST)
    publish_all(client, name, [b"%d" % number for number in range(200)])
    assert expect_offsets(reader, 200) == list(range(200))


def test_publishes_of_a_transaction_come_with_its_commit(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    reader = connect()
    read_from(reader, name, FIRST)
    client.call(Tx.Select(), Tx.SelectOk)
    for number in range(3):
        client.publish(b"%d" % number, name)
    client.call(Tx.Rollback(), Tx.RollbackOk)
    for number in range(3):
        client.publish(b"%d" % number, name)
    expect_quiet(reader, name)
    client.call(Tx.Commit(), Tx.CommitOk)
    assert expect_offsets(reader, 3) == [0, 1, 2]


@differs(
    rabbitmq="an answer gives credit at once, committed or not",
    reason="as for any other queue: what is not committed has not happened",
)
@pytest.mark.parametrize(
    ("method", "credit"), [(Basic.Ack(2, True), 2), (Basic.Nack(2, True), 2), (Basic.Reject(2), 1)]
)
def test_answers_of_a_transaction_count_with_its_commit(
    client: AmqpClient, name: str, method: Frame, credit: int
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 4)
    client.call(Tx.Select(), Tx.SelectOk)
    read_from(client, name, FIRST, count=2)
    assert expect_offsets(client, 2) == [0, 1]
    client.send(method)
    expect_quiet(client, name)
    client.call(Tx.Rollback(), Tx.RollbackOk)
    client.send(method)
    client.call(Tx.Commit(), Tx.CommitOk)
    assert expect_offsets(client, credit) == [2, 3][:credit]
    expect_quiet(client, name)


def test_a_transaction_spans_streams_and_queues(
    client: AmqpClient, connect: Connect, new_name: NewName
) -> None:
    stream, queue = new_name(), new_name()
    declare_stream(client, stream)
    client.declare(queue)
    client.call(Tx.Select(), Tx.SelectOk)
    client.publish(b"one", stream)
    client.publish(b"two", queue)
    client.call(Tx.Commit(), Tx.CommitOk)
    assert first_message(connect(), stream).body == b"one"
    taken = client.get(queue)
    assert taken is not None
    assert taken.body == b"two"
