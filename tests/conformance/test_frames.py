"""Sizes and order of frames that the broker takes."""

from pamqp import body, header
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient, frame_octets
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error
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


def test_a_table_of_sixty_levels_is_taken(client: AmqpClient, name: str) -> None:
    table = Typed("S", "innermost")
    for _ in range(60):
        table = Typed("F", {"in": table})
    send_declaration(client, name, {"x-mine": table}, flags=EXCLUSIVE)
    client.expect(Queue.DeclareOk)
