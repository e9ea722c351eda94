"""Channels are opened, closed and opened again."""

import struct

from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient, frame_octets
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_channel_error, expect_connection_error
from tests.conformance.marks import ours_only


def test_one_channel_more_than_negotiated(connect: Connect) -> None:
    client = connect(channels=3, channel_max=3)
    client.send(Channel.Open(), 4)
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    expect_connection_error(client, 530, text, None)


def test_channels_are_counted_and_their_numbers_may_be_any(connect: Connect) -> None:
    client = connect(channels=0, channel_max=2)
    client.open_channel(60_000)
    client.open_channel(9)


def test_a_closed_channel_makes_room_for_another(connect: Connect) -> None:
    client = connect(channels=2, channel_max=2)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    client.open_channel(3)


def test_a_channel_closed_by_an_error_makes_room_for_another(connect: Connect, name: str) -> None:
    client = connect(channels=2, channel_max=2)
    client.send(Queue.Declare(queue=name, passive=True))
    client.expect_channel_close(404)
    client.open_channel(3)


def test_a_number_may_be_used_again_right_after_close_ok(client: AmqpClient, name: str) -> None:
    for _ in range(50):
        client.send(Queue.Declare(queue=name, passive=True))
        client.expect_channel_close(404)
        client.open_channel()
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        client.open_channel()


def test_flow_may_be_asked_for_though_it_never_stopped(client: AmqpClient) -> None:
    answer = client.call(Channel.Flow(True), Channel.FlowOk)
    assert answer.active is True


def test_a_client_cannot_stop_the_flow(client: AmqpClient) -> None:
    client.send(Channel.Flow(False))
    expect_connection_error(client, 540, "NOT_IMPLEMENTED - active=false", Channel.Flow)


def test_access_request_gets_a_ticket(client: AmqpClient) -> None:
    client.send_method(struct.pack(">HHB5sB", 30, 10, 5, b"/data", 0b11111))
    granted = frame_octets(1, 1, struct.pack(">HHH", 30, 11, 1))
    received = b""
    while len(received) < len(granted):
        received += client.receive_raw()
    assert received == granted


def test_a_ticket_has_no_effect(client: AmqpClient, name: str) -> None:
    declare = struct.pack(">HHHB", 50, 10, 101, len(name)) + name.encode() + bytes(5)
    client.send_method(declare)
    assert client.expect(Queue.DeclareOk).queue == name


@ours_only("RabbitMQ 3.10 requeues what basic.get took in its own time")
def test_the_unacked_messages_of_a_channel_are_requeued_before_its_close_ok(
    connect: Connect, name: str
) -> None:
    """For consumers both promise it: `test_requeueing.py`."""
    client = connect(channels=2, confirms=True)
    client.declare(name)
    client.publish(b"held", name)
    client.expect_confirmed()
    assert client.get(name, no_ack=False) is not None
    assert client.ready_count(name, channel=2) == 0
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    assert client.ready_count(name, channel=2) == 1


def test_confirms_begin_at_one_on_each_channel_and_after_each_opening(client: AmqpClient) -> None:
    for _ in range(2):
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
        client.open_channel(confirms=True)
        client.publish(b"", "nobody")
        assert client.expect(Basic.Ack).delivery_tag == 1


def test_an_error_of_a_channel_comes_in_the_order_of_its_methods(
    client: AmqpClient, name: str
) -> None:
    client.send(Queue.Declare(queue=name))
    client.send(Queue.Declare(queue=f"{name}-missing", passive=True))
    client.send(Queue.Delete(queue=name))
    client.expect(Queue.DeclareOk)
    text = f"NOT_FOUND - no queue '{name}-missing' in vhost '/'"
    expect_channel_error(client, 404, text, Queue.Declare)
    client.open_channel()
    assert client.ready_count(name) == 0
