"""An open connection gets a new secret, makes mistakes and is closed."""

import pytest
from pamqp.commands import Channel, Connection, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.broker import Broker
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_connection_error
from tests.conformance.polling import eventually


def test_a_close_is_answered(client: AmqpClient) -> None:
    client.call(Connection.Close(200, "done", 0, 0), Connection.CloseOk, 0)


def test_a_close_without_channels_is_answered(connect: Connect) -> None:
    connect(channels=0).call(Connection.Close(200, "done", 0, 0), Connection.CloseOk, 0)


def test_nothing_is_done_after_a_close(connect: Connect, client: AmqpClient, name: str) -> None:
    client.send(Connection.Close(200, "done", 0, 0), 0)
    client.send(Queue.Declare(queue=name))
    client.expect(Connection.CloseOk, 0)
    other = connect()
    other.send(Queue.Declare(queue=name, passive=True))
    other.expect_channel_close(404)


def test_methods_before_a_close_are_answered_before_it(client: AmqpClient, name: str) -> None:
    client.send(Queue.Declare(queue=name))
    client.send(Connection.Close(200, "done", 0, 0), 0)
    client.expect(Queue.DeclareOk)
    client.expect(Connection.CloseOk, 0)


def test_an_exclusive_queue_is_gone_when_its_connection_is_closed(
    connect: Connect, name: str
) -> None:
    owner, other = connect(), connect()
    owner.declare(name, exclusive=True)
    owner.call(Connection.Close(200, "done", 0, 0), Connection.CloseOk, 0)
    other.send(Queue.Declare(queue=name, passive=True))
    other.expect_channel_close(404)


def test_an_exclusive_queue_is_gone_some_time_after_its_connection_was_lost(
    connect: Connect, name: str
) -> None:
    owner, other = connect(), connect()
    owner.declare(name, exclusive=True)
    owner.socket.close()

    def is_gone() -> bool:
        other.send(Queue.Declare(queue=name, passive=True))
        close = other.expect(Channel.Close)
        other.send(Channel.CloseOk())
        other.open_channel()
        return close.reply_code == 404

    eventually(is_gone)


@pytest.mark.parametrize("secret", ["the right one", "another one", ""])
def test_any_secret_may_be_given_for_the_one_of_the_login(
    broker: Broker, client: AmqpClient, secret: str
) -> None:
    renewed = broker.url.password if secret == "the right one" else secret
    renewal = Connection.UpdateSecret(renewed, "it grew old")
    client.call(renewal, Connection.UpdateSecretOk, 0)
    client.open_channel(2)


def test_a_new_secret_does_not_change_what_the_next_login_needs(
    connect: Connect, client: AmqpClient
) -> None:
    renewal = Connection.UpdateSecret("another one", "it grew old")
    client.call(renewal, Connection.UpdateSecretOk, 0)
    connect().open_channel(2)


@pytest.mark.parametrize(
    "method",
    [
        Connection.StartOk({}, "PLAIN", "\0a\0b", "en_US"),
        Connection.TuneOk(2047, 131_072, 0),
        Connection.Open("/"),
        Connection.Tune(2047, 131_072, 0),
        Connection.Blocked("?"),
    ],
    ids=["start-ok", "tune-ok", "open", "tune", "blocked"],
)
def test_a_step_of_the_handshake_may_not_come_again(
    client: AmqpClient, method: Connection.Open
) -> None:
    client.send(method, 0)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    expect_connection_error(client, 504, text, type(method))


def test_an_unexpected_close_ok(client: AmqpClient) -> None:
    client.send(Connection.CloseOk(), 0)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    expect_connection_error(client, 504, text, Connection.CloseOk)
