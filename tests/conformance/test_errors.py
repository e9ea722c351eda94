"""A soft error closes its channel, a hard one the connection; both name code, text and method."""

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from tests.amqp_client import PERSISTENT, AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error, expect_connection_error


def test_a_soft_error_closes_its_channel_and_names_code_text_and_method(
    client: AmqpClient, name: str
) -> None:
    client.send(Queue.Declare(queue=name, passive=True))
    expect_channel_error(client, 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", Queue.Declare)


def test_a_soft_error_leaves_the_other_channels_alone(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    client.send(Queue.Declare(queue=name, passive=True), 1)
    expect_channel_error(client, 404, f"NOT_FOUND - no queue '{name}' in vhost '/'", Queue.Declare)
    client.declare(name, channel=2)


def test_a_hard_error_closes_the_connection_and_names_code_text_and_method(
    client: AmqpClient,
) -> None:
    client.send(Basic.Qos(prefetch_size=1))
    expect_connection_error(client, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)", Basic.Qos)


def test_a_text_longer_than_255_octets_is_cut(client: AmqpClient, new_name: NewName) -> None:
    name = new_name() + "x" * 230
    client.send(Queue.Declare(queue=name, passive=True))
    whole = f"NOT_FOUND - no queue '{name}' in vhost '{client.vhost}'"
    close = client.expect_channel_close(404)
    assert close.reply_text == whole[:252] + "..."


def test_a_hundred_publishes_to_a_missing_exchange_close_the_channel_once(
    client: AmqpClient, name: str
) -> None:
    for _ in range(100):
        client.publish(b"lost", "key", name)
    expect_channel_error(
        client, 404, f"NOT_FOUND - no exchange '{name}' in vhost '/'", Basic.Publish
    )
    client.open_channel()
    client.declare(name)


@pytest.mark.parametrize("content", [b"lost", b""], ids=["body", "no body"])
def test_five_hundred_channels_that_fail_can_be_opened_again_at_once(
    connect: Connect, name: str, content: bytes
) -> None:
    """As amqp091-go uses channels: many publishes, of which the first closes the channel."""
    numbers = range(1, 501)
    client = connect(channels=0)
    client.send_raw(b"".join(frame.marshal(Channel.Open(), number) for number in numbers))
    for _ in numbers:
        assert isinstance(client.receive()[1], Channel.OpenOk)
    method = Basic.Publish(exchange=name, routing_key="key")
    for number in numbers:
        octets = client.publish_octets(method, content, PERSISTENT, number)
        client.send_raw(octets * 100)
        text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
        close = client.expect(Channel.Close, number)
        assert (close.reply_code, close.reply_text) == (
            404,
            text.replace("'/'", repr(client.vhost)),
        )
        assert (close.class_id, close.method_id) == (60, 40)
    client.send_raw(
        b"".join(
            frame.marshal(Channel.CloseOk(), number) + frame.marshal(Channel.Open(), number)
            for number in numbers
        )
    )
    for _ in numbers:
        assert isinstance(client.receive()[1], Channel.OpenOk)


def test_everything_on_a_closing_channel_is_discarded_until_close_ok(
    client: AmqpClient, name: str
) -> None:
    client.send(Queue.Declare(queue=f"{name}-missing", passive=True))
    client.expect(Channel.Close)
    client.send_raw(
        b"".join(
            [
                frame.marshal(Basic.Qos(prefetch_size=1), 1),
                frame.marshal(Queue.Declare(queue=name), 1),
                frame.marshal(Exchange.Declare(exchange=name, exchange_type="nonsense"), 1),
                client.publish_octets(Basic.Publish(exchange=name), b"x", PERSISTENT),
                frame.marshal(Channel.CloseOk(), 1),
                frame.marshal(Channel.Open(), 1),
            ]
        )
    )
    client.expect(Channel.OpenOk)
    client.send(Queue.Declare(queue=name, passive=True))
    client.expect_channel_close(404)


def test_a_channel_close_that_crosses_the_servers_is_answered(
    client: AmqpClient, name: str
) -> None:
    client.send(Queue.Declare(queue=name, passive=True))
    client.expect(Channel.Close)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    client.send(Channel.CloseOk())
    client.open_channel()
    client.declare(name)


def test_everything_on_a_closing_connection_is_discarded_until_close_ok(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.send_raw(
        frame.marshal(Basic.Qos(prefetch_size=1), 1) + frame.marshal(Queue.Declare(queue=name), 1)
    )
    assert client.expect(Connection.Close, 0).reply_code == 540
    client.send(Queue.Declare(queue=name), 1)
    client.send(Connection.CloseOk(), 0)
    client.expect_end()
    other = connect()
    other.send(Queue.Declare(queue=name, passive=True))
    other.expect_channel_close(404)


def test_a_connection_close_that_crosses_the_servers_is_answered(client: AmqpClient) -> None:
    client.send(Basic.Qos(prefetch_size=1))
    assert client.expect(Connection.Close, 0).reply_code == 540
    client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
