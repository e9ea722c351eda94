"""Sections 0 and 1: frames that are malformed, too large, or not what comes next."""

import struct

import pytest
from pamqp import body, header
from pamqp.base import Frame
from pamqp.commands import Basic, Connection, Exchange, Queue

from tests.amqp_client import AmqpClient, frame_octets
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.typed_fields import EXCLUSIVE, Typed, send_declaration

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
PUBLISH = Basic.Publish(routing_key="nobody")
NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
EMPTY = header.ContentHeader(0, 0, Basic.Properties())


def test_a_frame_above_the_negotiated_size_is_a_frame_error(connect: Connect) -> None:
    client = connect(frame_max=4096)
    client.send_raw(frame_octets(BODY, 1, b"x" * 5000))
    expect_connection_error(
        client,
        501,
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,5000,4088}",
        None,
    )


def test_a_frame_may_be_eight_octets_larger_than_negotiated(connect: Connect, name: str) -> None:
    # Some clients do not count what surrounds a frame's payload.
    client = connect(frame_max=4096, confirms=True)
    client.declare(name)
    client.send(Basic.Publish(routing_key=name))
    client.send(header.ContentHeader(0, 4096, Basic.Properties()))
    client.send(body.ContentBody(bytes(4096)))
    client.expect(Basic.Ack)
    assert client.ready_count(name) == 1


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


def test_a_wrong_end_octet_is_a_frame_error(client: AmqpClient) -> None:
    client.send_raw(frame_octets(METHOD, 1, b"\x00\x14\x00\x0a\x00", end=0))
    text = "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,0}"
    expect_connection_error(client, 501, text, None)


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 255])
def test_an_unknown_kind_of_frame_is_a_frame_error(client: AmqpClient, kind: int) -> None:
    client.send_raw(frame_octets(kind, 1, b"abc"))
    text = f'FRAME_ERROR - type {kind}, all octets = <<"abc">>: unknown_frame'
    expect_connection_error(client, 501, text, None)


@pytest.mark.parametrize("kind", [HEADER, BODY])
def test_content_on_channel_zero(client: AmqpClient, kind: int) -> None:
    client.send_raw(frame_octets(kind, 0, b"\x00\x3c" + bytes(20)))
    octets = "first 16 octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0,0,0>>"
    expect_connection_error(client, 505, f"UNEXPECTED_FRAME - type {kind}, {octets}", None)


def test_a_header_without_a_method(client: AmqpClient) -> None:
    client.send(EMPTY)
    expect_connection_error(client, 505, NO_METHOD, None)


def test_a_body_without_a_method(client: AmqpClient) -> None:
    client.send(body.ContentBody(b"x"))
    expect_connection_error(client, 505, NO_METHOD, None)


def test_a_method_where_a_header_should_come(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(PUBLISH)
    expect_connection_error(client, 505, NO_HEADER, Basic.Publish)


def test_a_body_where_a_header_should_come(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(body.ContentBody(b"x"))
    expect_connection_error(client, 505, NO_HEADER, Basic.Publish)


def test_a_header_of_another_class(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send_raw(frame_octets(HEADER, 1, struct.pack(">HHQH", 50, 0, 0, 0)))
    text = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
    expect_connection_error(client, 505, text, Basic.Publish)


def test_a_method_where_a_body_should_come(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(header.ContentHeader(0, 10, Basic.Properties()))
    client.send(PUBLISH)
    expect_connection_error(client, 505, NO_BODY, Basic.Publish)


def test_a_header_where_a_body_should_come(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(header.ContentHeader(0, 10, Basic.Properties()))
    client.send(EMPTY)
    expect_connection_error(client, 505, NO_BODY, Basic.Publish)


@differs_from_3_10("takes the octets and waits for ever for the end of the message")
def test_more_body_than_was_announced(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send(header.ContentHeader(0, 3, Basic.Properties()))
    client.send(body.ContentBody(b"four"))
    text = "FRAME_ERROR - content body frame exceeds remaining content size"
    expect_connection_error(client, 501, text, Basic.Publish)


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


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (b"", "<<>>"),
        (b"\x00\x00\x05ab", "<<0,0,5,97,98>>"),
        (b"\x00\x00\x00\x00", "<<0,0,0,0>>"),
        (bytes(7) + b"\x00\x00\x01", "<<0,0,0,0,0,0,0,0,0,1>>"),
    ],
    ids=["none", "half a name", "no table", "too many"],
)
def test_arguments_that_break_their_grammar(
    client: AmqpClient, arguments: bytes, shown: str
) -> None:
    client.send_method(b"\x00\x32\x00\x0a" + arguments)
    text = f"FRAME_ERROR - cannot decode {shown}"
    expect_connection_error(client, 501, text, Queue.Declare)


@differs(rabbitmq="drops the connection", reason="the client learns why")
def test_a_table_with_a_value_of_unknown_type(client: AmqpClient) -> None:
    client.send_method(b"\x00\x32\x00\x0a" + bytes(4) + b"\x00\x00\x00\x03\x01a?")
    client.expect_connection_close(501)


@pytest.mark.parametrize(
    ("kind", "payload", "shown"),
    [
        (METHOD, b"", "<<>>"),
        (METHOD, b"\x00\x3c", "<<0,60>>"),
        (HEADER, b"\x00\x3c\x00\x00", "<<0,60,0,0>>"),
        (HEARTBEAT, b"a", '<<"a">>'),
    ],
    ids=["no method", "half a method", "half a header", "heartbeat with a payload"],
)
def test_a_frame_that_is_none(client: AmqpClient, kind: int, payload: bytes, shown: str) -> None:
    client.send_raw(frame_octets(kind, 0 if kind == HEARTBEAT else 1, payload))
    text = f"FRAME_ERROR - type {kind}, all octets = {shown}: unknown_frame"
    expect_connection_error(client, 501, text, None)


def test_a_header_with_a_weight(client: AmqpClient) -> None:
    client.send(PUBLISH)
    client.send_raw(frame_octets(HEADER, 1, struct.pack(">HHQH", 60, 1, 0, 0)))
    expect_connection_error(client, 505, NO_HEADER, Basic.Publish)


@differs(rabbitmq="takes tables of any depth", reason="everything from outside has a bound")
def test_a_table_is_nested_up_to_a_bound(client: AmqpClient, name: str) -> None:
    for levels, is_taken in ((60, True), (70, False)):
        table = Typed("S", "innermost")
        for _ in range(levels):
            table = Typed("F", {"in": table})
        send_declaration(client, name, {"x-mine": table}, flags=EXCLUSIVE)
        if is_taken:
            client.expect(Queue.DeclareOk)
    client.expect_connection_close(501)


@differs(rabbitmq="says 541 INTERNAL_ERROR", reason="it is the client's mistake, which it learns")
@pytest.mark.parametrize(
    "properties",
    [b"\x80\x00\x20ab", b"\x80\x00", b"\x00\x01\x00\x00", b"\x00\x00\x00"],
    ids=["half a string", "no string", "more flags", "too many"],
)
def test_properties_that_break_their_grammar(client: AmqpClient, properties: bytes) -> None:
    client.send(Basic.Publish(routing_key="nobody", mandatory=True))
    client.send_raw(frame_octets(HEADER, 1, struct.pack(">HHQ", 60, 0, 0) + properties))
    client.expect_connection_close(502)


@pytest.mark.parametrize(
    "method",
    [
        Exchange.Declare(exchange="NAME"),
        Queue.Declare(queue="NAME"),
        Queue.Bind(queue="NAME", exchange="amq.direct"),
        Queue.Bind(queue="q", exchange="amq.direct", routing_key="NAME"),
        Basic.Consume(queue="q", consumer_tag="NAME"),
    ],
    ids=["exchange", "queue", "bound queue", "key", "consumer tag"],
)
def test_names_that_are_not_utf_8(client: AmqpClient, method: Frame) -> None:
    payload = method.index.to_bytes(4, "big") + method.marshal()
    client.send_method(payload.replace(b"\x04NAME", b"\x04\xff\xfe\xfd\xfc"))
    expect_connection_error(client, 501, "FRAME_ERROR - Malformed UTF-8 in shortstr", None)


def test_a_method_that_only_a_server_sends(client: AmqpClient) -> None:
    client.send(Queue.DeclareOk("q", 0, 0))
    text = "COMMAND_INVALID - unimplemented method"
    expect_connection_error(client, 503, text, Queue.DeclareOk)


def test_a_method_of_the_connection_on_a_channel(client: AmqpClient) -> None:
    client.send(Connection.Close(200, "", 0, 0), 1)
    text = "COMMAND_INVALID - unimplemented method"
    expect_connection_error(client, 503, text, Connection.Close)


def test_a_method_of_channels_on_channel_zero(client: AmqpClient) -> None:
    client.send(Queue.Declare(queue=""), 0)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    expect_connection_error(client, 504, text, Queue.Declare)
