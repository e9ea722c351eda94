"""Sections 0 and 1: frames that are malformed, too large, or not what comes next."""

import struct

import pytest
from pamqp import body, header
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient, frame_octets
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error
from tests.conformance.marks import differs

METHOD, HEADER, BODY = 1, 2, 3
PUBLISH = Basic.Publish(routing_key="nobody")
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
EMPTY = header.ContentHeader(0, 0, Basic.Properties())


def test_a_frame_of_just_the_negotiated_size_is_taken(connect: Connect, name: str) -> None:
    client = connect(frame_max=4096, confirms=True)
    client.declare(name)
    client.publish(b"x" * (4096 - 8), name)
    client.expect_confirmed()
    message = client.get(name)
    assert message is not None
    assert len(message.body) == 4088


def test_bodies_are_cut_to_the_negotiated_size(connect: Connect, name: str) -> None:
    large, small = connect(confirms=True), connect(frame_max=4096)
    large.declare(name)
    large.publish(bytes(50_000), name)
    large.expect_confirmed()
    small.send(Basic.Get(queue=name, no_ack=True))
    small.expect(Basic.GetOk)
    assert isinstance(small.receive()[1], header.ContentHeader)
    received = 0
    while received < 50_000:
        _, part = small.receive()
        assert isinstance(part, body.ContentBody)
        assert len(part.value) <= 4088
        received += len(part.value)


def test_a_header_without_a_method(client: AmqpClient) -> None:
    client.send(EMPTY)
    expect_connection_error(client, 505, NO_METHOD, None)


def test_a_body_without_a_method(client: AmqpClient) -> None:
    client.send(body.ContentBody(b"x"))
    expect_connection_error(client, 505, NO_METHOD, None)


def test_a_body_where_a_header_should_come(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(body.ContentBody(b"x"))
    expect_connection_error(client, 505, NO_HEADER, Basic.Publish)


def test_a_header_of_another_class(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send_raw(frame_octets(HEADER, 1, struct.pack(">HHQH", 50, 0, 0, 0)))
    text = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
    expect_connection_error(client, 505, text, Basic.Publish)


def test_a_header_where_a_body_should_come(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(header.ContentHeader(0, 10, Basic.Properties()))
    client.send(EMPTY)
    expect_connection_error(client, 505, NO_BODY, Basic.Publish)


@differs(
    rabbitmq="takes the octets and waits for ever for the end of the message",
    reason="the client learns why",
)
def test_more_body_than_was_announced(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(header.ContentHeader(0, 3, Basic.Properties()))
    client.send(body.ContentBody(b"four"))
    text = "UNEXPECTED_FRAME - content body is larger than its header announced"
    expect_connection_error(client, 505, text, Basic.Publish)


def test_a_body_after_an_empty_message(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(EMPTY)
    client.send(body.ContentBody(b"x"))
    expect_connection_error(client, 505, NO_METHOD, None)


def test_an_empty_body_frame_is_taken(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    client.send(Basic.Publish(routing_key=name))
    client.send(header.ContentHeader(0, 2, Basic.Properties()))
    for part in (b"", b"a", b"", b"b"):
        client.send(body.ContentBody(part))
    client.expect(Basic.Ack)
    message = client.get(name)
    assert message is not None
    assert message.body == b"ab"


def test_content_of_several_channels_may_be_mixed(connect: Connect, name: str) -> None:
    client = connect(channels=3, confirms=True)
    client.declare(name)
    for step in (
        Basic.Publish(routing_key=name),
        header.ContentHeader(0, 4, Basic.Properties()),
        body.ContentBody(b"ab"),
        body.ContentBody(b"cd"),
    ):
        for channel in (1, 2, 3):
            client.send(step, channel)
    for channel in sorted(client.receive()[0] for _ in range(3)):
        message = client.get(name, channel=channel)
        assert message is not None
        assert message.body == b"abcd"


def test_methods_of_other_channels_may_come_between(connect: Connect, name: str) -> None:
    client = connect(channels=2, confirms=True)
    client.declare(name)
    client.send(Basic.Publish(routing_key=name))
    assert client.ready_count(name, channel=2) == 0
    client.send(header.ContentHeader(0, 4, Basic.Properties()))
    assert client.ready_count(name, channel=2) == 0
    client.send(body.ContentBody(b"abcd"))
    client.expect(Basic.Ack)
    assert client.ready_count(name, channel=2) == 1


@differs(rabbitmq="drops the connection", reason="the client learns why")
@pytest.mark.parametrize("numbers", [(10, 99), (20, 99), (60, 99), (99, 10)])
def test_a_method_that_nobody_knows(client: AmqpClient, numbers: tuple[int, int]) -> None:
    client.send_method(struct.pack(">HH", *numbers), 0 if numbers[0] == 10 else 1)
    close = client.expect_connection_close(540)
    assert close.reply_text == "NOT_IMPLEMENTED - unimplemented method"
    assert (close.class_id, close.method_id) == numbers


@differs(
    rabbitmq="says 501 FRAME_ERROR - cannot decode <<...>>",
    reason="502 is what the specification names",
)
@pytest.mark.parametrize(
    "arguments", [b"", b"\x00\x00\x05ab", b"\x00\x00\x00\x00"], ids=["none", "half", "no table"]
)
def test_a_method_that_ends_too_early(client: AmqpClient, arguments: bytes) -> None:
    client.send_method(b"\x00\x32\x00\x0a" + arguments)
    close = client.expect_connection_close(502)
    assert (close.class_id, close.method_id) == (50, 10)


def test_a_method_that_only_a_server_sends(client: AmqpClient) -> None:
    client.send(Queue.DeclareOk("q", 0, 0))
    text = "COMMAND_INVALID - unimplemented method"
    expect_connection_error(client, 503, text, Queue.DeclareOk)


def test_a_method_of_channels_on_channel_zero(client: AmqpClient) -> None:
    client.send(Queue.Declare(queue=""), 0)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    expect_connection_error(client, 504, text, Queue.Declare)
