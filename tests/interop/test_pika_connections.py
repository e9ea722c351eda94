"""pika: logging in, staying connected, being closed, and numbers of channels used again."""

import signal
import threading

import pika
import pytest
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.amqp_client import connect as connect_raw
from tests.conftest import StartServer
from tests.interop.conftest import Address, Connect

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "guest"), ("", "")])
def test_bad_credentials_are_refused_with_403(connect: Connect, user: str, password: str) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        connect(credentials=pika.PlainCredentials(user, password))
    assert "(403)" in str(caught.value)
    assert (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see "
        "the broker logfile."
    ) in str(caught.value)


def test_an_unknown_virtual_host_is_refused_with_530(connect: Connect) -> None:
    with pytest.raises(ProbableAccessDeniedError) as caught:
        connect(virtual_host="elsewhere")
    assert "(530)" in str(caught.value)
    assert "NOT_ALLOWED - vhost elsewhere not found" in str(caught.value)


def test_the_server_says_who_it_is_and_what_it_can(connection: pika.BlockingConnection) -> None:
    assert connection.publisher_confirms_supported
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported


def test_a_client_may_give_itself_a_name_and_any_properties(connect: Connect) -> None:
    properties = {"connection_name": "a name", "notes": {"more": ["x"] * 200}, "size": "y" * 9000}
    assert connect(client_properties=properties).channel().is_open


def test_an_idle_connection_with_heartbeats_stays_up(connect: Connect, name: str) -> None:
    connection = connect(heartbeat=2)
    channel = connection.channel()
    channel.queue_declare(name)
    # More than two intervals for both sides: who missed the other's heartbeats would be gone.
    connection.sleep(6.5)
    channel.basic_publish("", name, b"still here")
    assert channel.basic_get(name, auto_ack=True)[2] == b"still here"


def test_a_client_that_never_answers_heartbeats_is_dropped(address: Address, name: str) -> None:
    with connect_raw(address, heartbeat_seconds=1) as silent:
        silent.open_channel()
        silent.declare(name, durable=False, exclusive=True)
        silent.expect_end()
    with connect_raw(address) as other:
        other.open_channel()
        other.declare(name, durable=False, exclusive=True)


def test_heartbeats_can_be_declined(connect: Connect) -> None:
    assert connect(heartbeat=0).channel().is_open


def test_a_channel_number_is_free_after_an_error_again_and_again(
    connection: pika.BlockingConnection, name: str
) -> None:
    witness = connection.channel(7)
    witness.queue_declare(name)
    for _ in range(50):
        channel = connection.channel(3)
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare(name + "?", passive=True)
    channel = connection.channel(3)
    channel.basic_publish("", name, b"a")
    assert witness.basic_get(name, auto_ack=True)[0].delivery_tag == 1


def test_many_channels_work_side_by_side(connection: pika.BlockingConnection, name: str) -> None:
    channels = [connection.channel() for _ in range(200)]
    channels[0].queue_declare(name)
    for number, channel in enumerate(channels):
        channel.confirm_delivery()
        channel.basic_publish("", name, b"%d" % number)
    for number, channel in enumerate(channels):
        method, _, body = channel.basic_get(name)
        assert (method.delivery_tag, body) == (1, b"%d" % number)
    for channel in channels:
        channel.close()
    last = connection.channel()
    assert last.queue_purge(name).method.message_count == len(channels)


def test_closing_a_connection_closes_its_channels_and_frees_what_it_held(
    connect: Connect, name: str
) -> None:
    connection = connect()
    channels = [connection.channel() for _ in range(3)]
    channels[0].queue_declare(name, exclusive=True)
    channels[1].basic_consume(name, lambda *_: None, exclusive=True)
    connection.close()
    assert not any(channel.is_open for channel in channels)
    again = connect().channel()
    again.queue_declare(name, exclusive=True)
    again.basic_consume(name, lambda *_: None, exclusive=True)


def test_clients_are_told_when_the_server_stops(start_server: StartServer) -> None:
    server = start_server()
    connection = pika.BlockingConnection(pika.ConnectionParameters(*server.address))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    stopping = threading.Timer(0, server.signal, [signal.SIGTERM])
    stopping.start()
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.sleep(30)
    stopping.join()
    assert caught.value.reply_code == 320
    assert caught.value.reply_text == (
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    )
    assert server.wait() == 0
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters(*server.address))


def test_persistent_messages_survive_a_kill_and_transient_ones_do_not(
    start_server: StartServer, name: str
) -> None:
    server = start_server()
    connection = pika.BlockingConnection(pika.ConnectionParameters(*server.address))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare(name, "topic", durable=True)
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "a.#")
    for number in range(10):
        channel.basic_publish(
            name, "a.b", b"%d" % number, pika.BasicProperties(delivery_mode=1 + number % 2)
        )
    server.kill()
    with pytest.raises(AMQPConnectionError):
        connection.sleep(30)
    server.restart()
    connection = pika.BlockingConnection(pika.ConnectionParameters(*server.address))
    channel = connection.channel()
    channel.basic_publish(name, "a.c", b"bound still")
    taken = [channel.basic_get(name, auto_ack=True)[2] for _ in range(7)]
    assert taken == [b"1", b"3", b"5", b"7", b"9", b"bound still", None]
    connection.close()
