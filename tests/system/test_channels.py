"""Many channels that fail and come back; closes that cross each other."""

import pytest
from pamqp import frame, header
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import PERSISTENT, connect, frame_octets
from tests.servers import RunningServer

CHANNELS = 1000
PUBLISHES = 100
MALFORMED_CONTENT_HEADER = b"\x00\x3c" + bytes(10) + b"\x80\x00"
"""It announces a content type, and ends."""


@pytest.mark.parametrize("has_content", [True, False], ids=["whole", "pieces"])
def test_publishing_to_nowhere_on_a_thousand_channels_costs_the_channels_only(
    server: RunningServer, has_content: bool
) -> None:
    """As amqp091-go does it: a hundred publishes each, of which the first closes the channel."""
    with connect(server.address) as client:
        numbers = range(1, CHANNELS + 1)
        client.send_raw(b"".join(frame.marshal(Channel.Open(), number) for number in numbers))
        for number in numbers:
            client.expect(Channel.OpenOk, number)
        method = Basic.Publish(0, "nowhere", "k")
        for number in numbers:
            octets = client.publish_octets(method, b"lost" * has_content, PERSISTENT, number)
            client.send_raw(octets * PUBLISHES)
            close = client.expect(Channel.Close, number)
            assert (close.reply_code, close.class_id, close.method_id) == (404, 60, 40)
            assert close.reply_text == "NOT_FOUND - no exchange 'nowhere' in vhost '/'"

        # All numbers are free as soon as the closes are answered, in the same breath.
        client.send_raw(
            b"".join(
                frame.marshal(Channel.CloseOk(), number) + frame.marshal(Channel.Open(), number)
                for number in numbers
            )
        )
        for number in numbers:
            client.expect(Channel.OpenOk, number)
        client.close()


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


def test_flow_that_is_on_is_affirmed(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        assert client.call(Channel.Flow(True), Channel.FlowOk).active is True
