"""Section 0: what closes a channel, what closes the connection, and what is said."""

from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from tests.amqp_client import AmqpClient
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


def test_a_hundred_channels_do_so_at_once(connect: Connect, name: str) -> None:
    client = connect(channels=100)
    for channel in range(1, 101):
        for _ in range(20):
            client.publish(b"lost", "key", name, channel=channel)
    closed = set[int]()
    while len(closed) < 100:
        channel, close = client.receive()
        assert isinstance(close, Channel.Close)
        assert close.reply_code == 404
        client.send(Channel.CloseOk(), channel)
        closed.add(channel)
    for channel in range(1, 101):
        client.open_channel(channel)


def test_everything_on_a_closing_channel_is_discarded_until_close_ok(
    client: AmqpClient, name: str
) -> None:
    client.send(Queue.Declare(queue=name, passive=True))
    client.expect(Channel.Close)
    client.send(Queue.Declare(queue=name))
    client.send(Exchange.Declare(exchange=name, exchange_type="nonsense"))
    client.send(Channel.CloseOk())
    client.open_channel()
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
    client.send(Basic.Qos(prefetch_size=1))
    client.expect(Connection.Close, 0)
    client.send(Queue.Declare(queue=name), 1)
    client.send(Connection.CloseOk(), 0)
    client.expect_end()
    other = connect()
    other.send(Queue.Declare(queue=name, passive=True))
    other.expect_channel_close(404)


def test_a_connection_close_that_crosses_the_servers_is_answered(client: AmqpClient) -> None:
    client.send(Basic.Qos(prefetch_size=1))
    client.expect(Connection.Close, 0)
    client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
