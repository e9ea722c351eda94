"""Clients that send ahead of a close: the broker handles their methods in order.

RabbitMQ answers these with 504 or closes the socket, depending on its timing.
"""

from pamqp import frame, header
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import connect, frame_octets
from tests.servers import RunningServer

MALFORMED_CONTENT_HEADER = b"\x00\x3c" + bytes(10) + b"\x80\x00"
"""It announces a content type, and ends."""


def test_everything_on_a_channel_that_failed_is_ignored_until_its_close_is_answered(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send_raw(
            frame.marshal(Queue.Declare(queue="missing", passive=True), 1)
            + frame.marshal(Channel.Open(), 1)
            + frame.marshal(Basic.Qos(prefetch_size=1), 1)
            + frame.marshal(Queue.Declare(queue="ignored"), 1)
            + frame.marshal(header.ContentHeader(0, 0), 1)
            + frame.marshal(Basic.Publish(exchange="missing"), 1)
            + frame_octets(2, 1, MALFORMED_CONTENT_HEADER)
            + frame.marshal(Channel.Close(200, "crossing", 0, 0), 1)
            + frame.marshal(Channel.CloseOk(), 1)
            + frame.marshal(Channel.Open(), 1)
        )
        client.expect(Channel.Close)
        client.expect(Channel.CloseOk)
        client.expect(Channel.OpenOk)
        client.send(Queue.Declare(queue="ignored", passive=True))
        client.expect_channel_close(404)


def test_a_channel_can_be_opened_again_right_after_it_was_closed(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.send_raw(
            (frame.marshal(Channel.Open(), 1) + frame.marshal(Channel.Close(200, "again", 0, 0), 1))
            * 100
        )
        for _ in range(100):
            client.expect(Channel.OpenOk)
            client.expect(Channel.CloseOk)
        client.close()


def test_closes_of_the_connection_may_cross(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send_raw(
            frame.marshal(Basic.Qos(prefetch_size=1), 1)
            + frame.marshal(Queue.Declare(queue="ignored"), 1)
            + frame.marshal(Connection.Close(200, "crossing", 0, 0), 0)
        )
        assert client.expect(Connection.Close, 0).reply_code == 540
        client.expect(Connection.CloseOk, 0)
        client.expect_end()
    with connect(server.address) as client:
        client.open_channel()
        client.send(Queue.Declare(queue="ignored", passive=True))
        client.expect_channel_close(404)
