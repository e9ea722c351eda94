"""Properties, headers and bodies are delivered as they were published."""

import struct
from datetime import UTC, datetime

import pytest
from pamqp import constants
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, frame_octets
from tests.amqp_client import connect as open_connection
from tests.conformance.conftest import Connect
from tests.conformance.consuming import consume, drain
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs, differs_from_3_10, ours_only
from tests.conformance.raw_content import (
    BASIC_CLASS,
    HEADERS_FLAG,
    expect_octets,
    publish_raw,
    short_string,
    table,
)
from tests.conftest import StartServer

MESSAGE_BYTES_MAX = 128 * 1024 * 1024
FLAG_OF_EACH = 0b1111_1111_1111_1100

ALL_PROPERTIES = Basic.Properties(
    content_type="application/json",
    content_encoding="gzip",
    headers={"key": "value"},
    delivery_mode=2,
    priority=7,
    correlation_id="correlation",
    reply_to="reply",
    expiration="3600000",
    message_id="message",
    timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    message_type="type",
    user_id="guest",
    app_id="application",
)

FIELD_VALUES = {
    "bool, true": b"t\x01",
    "bool, false": b"t\x00",
    "signed 8 bits": b"b\x80",
    "unsigned 8 bits": b"B\xff",
    "signed 16 bits": b"s\x80\x00",
    "unsigned 16 bits": b"u\xff\xff",
    "signed 32 bits": b"I\x80\x00\x00\x00",
    "unsigned 32 bits": b"i\xff\xff\xff\xff",
    "signed 64 bits": b"l\x80\x00\x00\x00\x00\x00\x00\x00",
    "float": b"f" + struct.pack(">f", 1.5),
    "double": b"d" + struct.pack(">d", 0.1),
    "decimal": b"D\x02" + struct.pack(">i", 314),
    "string": b"S\x00\x00\x00\x03\xc3\xa4!",
    "empty string": b"S\x00\x00\x00\x00",
    "octets": b"x\x00\x00\x00\x02\x00\xff",
    "array": b"A" + table(b"t\x01" + b"S\x00\x00\x00\x01a"),
    "empty array": b"A" + table(b""),
    "timestamp": b"T" + struct.pack(">Q", 1_700_000_000),
    "table": b"F" + table(b"\x01kI\x00\x00\x00\x01"),
    "empty table": b"F" + table(b""),
    "void": b"V",
}


def test_all_properties_come_back(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    client.publish(b"body", name, properties=ALL_PROPERTIES)
    client.expect_confirmed()
    message = client.get(name)
    assert message is not None
    assert dict(message.properties) == dict(ALL_PROPERTIES)


def test_all_properties_come_back_octet_for_octet(connect: Connect, name: str) -> None:
    """Also `cluster-id`, which newer clients do not send any more."""
    client = connect(confirms=True)
    client.declare(name)
    properties = b"".join(
        [
            short_string("content-type"),
            short_string("content-encoding"),
            table(short_string("key") + b"V"),
            b"\x01",  # delivery-mode
            b"\x09",  # priority
            short_string("correlation-id"),
            short_string("reply-to"),
            short_string("3600000"),  # expiration
            short_string("message-id"),
            struct.pack(">Q", 1 << 40),  # timestamp
            short_string("type"),
            short_string("guest"),  # user-id
            short_string("app-id"),
            short_string("cluster-id"),
        ]
    )
    publish_raw(client, name, FLAG_OF_EACH, properties, b"body")
    client.expect(Basic.Ack)
    client.send(Basic.Get(queue=name, no_ack=True))
    expect_octets(client, struct.pack(">QH", 4, FLAG_OF_EACH) + properties)


def test_a_message_without_properties_has_none(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    client.publish(b"body", name, properties=Basic.Properties())
    client.expect_confirmed()
    message = client.get(name)
    assert message is not None
    assert dict(message.properties) == dict(Basic.Properties())


@pytest.mark.parametrize("value", FIELD_VALUES.values(), ids=FIELD_VALUES)
def test_a_header_keeps_its_type_and_value(connect: Connect, name: str, value: bytes) -> None:
    client = connect(confirms=True)
    client.declare(name)
    headers = table(short_string("before") + b"V" + short_string("k") + value)
    publish_raw(client, name, HEADERS_FLAG, headers)
    client.expect(Basic.Ack)
    client.send(Basic.Get(queue=name, no_ack=True))
    expect_octets(client, headers)


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_a_delivery_mode_is_passed_on(connect: Connect, name: str, delivery_mode: int) -> None:
    expect_delivery_mode(connect, name, delivery_mode)


@differs_from_3_10("refuses it: 406 `invalid message: {delivery_mode_unknown,3}`")
@pytest.mark.parametrize("delivery_mode", [0, 3, 255])
def test_an_unknown_delivery_mode_is_passed_on(
    connect: Connect, name: str, delivery_mode: int
) -> None:
    expect_delivery_mode(connect, name, delivery_mode)


def expect_delivery_mode(connect: Connect, name: str, delivery_mode: int) -> None:
    client = connect(confirms=True)
    client.declare(name)
    mode = bytes([delivery_mode])
    publish_raw(client, name, 1 << 12, mode, b"body")
    client.expect(Basic.Ack)
    client.send(Basic.Get(queue=name, no_ack=True))
    expect_octets(client, struct.pack(">QH", 4, 1 << 12) + mode)


def test_an_empty_body_is_a_header_alone(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    for _ in range(3):
        client.publish(b"", name)
    client.expect_confirmed()
    consume(client, name, no_ack=True)
    assert [client.expect_delivery().body for _ in range(3)] == [b"", b"", b""]


def test_an_empty_body_frame_is_part_of_a_body(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name)
    client.send(Basic.Publish(routing_key=name))
    head = struct.pack(">HHQH", BASIC_CLASS, 0, 4, 0)
    client.send_raw(frame_octets(constants.FRAME_HEADER, 1, head))
    for part in (b"", b"bo", b"", b"dy"):
        client.send_raw(frame_octets(constants.FRAME_BODY, 1, part))
    client.expect(Basic.Ack)
    message = client.get(name)
    assert message is not None
    assert message.body == b"body"


def test_a_body_is_cut_to_the_consumers_frames(connect: Connect, name: str) -> None:
    publisher, consumer = connect(confirms=True), connect(frame_max=4096)
    publisher.declare(name)
    content = bytes(range(256)) * 1_000
    publisher.publish(content, name)
    publisher.expect_confirmed()
    consumer.send(Basic.Get(queue=name, no_ack=True))
    consumer.expect(Basic.GetOk)
    consumer.receive()
    got = b""
    while len(got) < len(content):
        _, part = consumer.receive()
        assert len(part.value) <= 4096 - 8  # type: ignore[union-attr]
        got += part.value  # type: ignore[union-attr]
    assert got == content


def test_contents_of_two_channels_may_be_interleaved(connect: Connect, name: str) -> None:
    client = connect(channels=2, confirms=True)
    client.declare(name)
    for channel in (1, 2):
        client.send(Basic.Publish(routing_key=name), channel)
        payload = struct.pack(">HHQH", BASIC_CLASS, 0, 2, 0)
        client.send_raw(frame_octets(constants.FRAME_HEADER, channel, payload))
    for part, channel in ((b"a", 1), (b"b", 2), (b"B", 2), (b"A", 1)):
        client.send_raw(frame_octets(constants.FRAME_BODY, channel, part))
    channels = {client.receive()[0] for _ in range(2)}
    assert channels == {1, 2}
    assert sorted(drain(client, name)) == [b"aA", b"bB"]


@differs(
    rabbitmq="takes 16 MiB, 3.10 128 MiB; says nothing until the whole body is there",
    reason="the limit of RabbitMQ 3; the client learns why before it has sent it all",
)
def test_a_message_above_the_limit_is_refused_at_its_header(client: AmqpClient, name: str) -> None:
    size = MESSAGE_BYTES_MAX + 1
    client.send(Basic.Publish(routing_key=name))
    head = struct.pack(">HHQH", BASIC_CLASS, 0, size, 0)
    client.send_raw(frame_octets(constants.FRAME_HEADER, 1, head))
    text = (
        "PRECONDITION_FAILED - "
        f"message size {size} is larger than configured max size {MESSAGE_BYTES_MAX}"
    )
    expect_channel_error(client, 406, text, Basic.Publish)


@ours_only("RabbitMQ reads its limit from a configuration file")
def test_the_limit_may_be_another(start_server: StartServer, name: str) -> None:
    with open_connection(start_server("--max-message-size", "64KiB").address) as client:
        client.open_channel(confirms=True)
        client.declare(name)
        client.publish(b"x" * 65_536, name)
        client.expect_confirmed()
        client.publish(b"x" * 65_537, name)
        text = "PRECONDITION_FAILED - message size 65537 is larger than configured max size 65536"
        expect_channel_error(client, 406, text, Basic.Publish)
        client.open_channel()
        assert client.ready_count(name) == 1


def test_the_rest_of_a_refused_content_is_ignored(client: AmqpClient, name: str) -> None:
    """The client may have sent all of it before it hears of the refusal."""
    client.publish(b"x" * 300_000, name, name)
    client.publish(b"y" * 300_000, name, name)
    client.expect_channel_close(404)
    client.open_channel()
    client.declare(name)
