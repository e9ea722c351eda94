"""A client that still writes when its connection ends reads all that the server sent."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pamqp.frame
import pytest
from pamqp.commands import Basic, Channel, Connection, Queue

from amqp_server import start_and_stop
from amqp_server.base.config import Limits
from amqp_server.connections import client_timeouts
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect, frame_octets
from tests.conftest import StartServer
from tests.threaded_server import ThreadedServer

FOR_EVER = 3600.0
"""Seconds: what ends before that was not ended by a timer."""
MORE = b"\x08\x00\x00\x00\x00\x00\x00\xce" * 8192


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    """Start a server that waits for its peers to close, however long it takes."""
    limits = Limits(linger_seconds_max=FOR_EVER, refused_login_seconds=0.05)
    with ThreadedServer(tmp_path / "data", limits=limits) as server:
        yield server


def still_write(server: ThreadedServer, client: AmqpClient, lingering: int = 1) -> None:
    """Send so much after the server's last frame that a closed socket would reset it."""
    server.wait_until(lambda: len(server.server.context.lingering) == lingering)
    for _ in range(10):
        client.send_raw(MORE)


def expect_orderly_end(server: ThreadedServer, client: AmqpClient) -> None:
    """Read the end of the server's octets, close, and see that the server has done so, too."""
    assert client.socket.recv(1) == b""
    client.socket.close()
    server.wait_until(lambda: not server.server.connections)
    assert server.call(lambda: len(server.server.context.lingering)) == 0


def test_a_client_that_still_writes_reads_the_answer_to_its_close(server: ThreadedServer) -> None:
    with connect(server.address) as client:
        client.send(Connection.Close(200, "", 0, 0), 0)
        still_write(server, client)
        client.expect(Connection.CloseOk, 0)
        expect_orderly_end(server, client)


def test_threads_that_close_one_connection_read_close_ok_and_no_end(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_timeouts, "PEER_FIRST_SECONDS", FOR_EVER)
    with connect(server.address) as client:
        close = pamqp.frame.marshal(Connection.Close(200, "", 0, 0), 0)
        client.send_raw(close * 10)
        client.expect(Connection.CloseOk, 0)
        for _ in range(10):
            client.send_raw(close)
        # The server has read them all, and neither ended the stream nor reset it.
        still_write(server, client)
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.setblocking(True)
        client.socket.shutdown(socket.SHUT_WR)
        expect_orderly_end(server, client)


def test_the_peer_that_does_not_close_first_reads_the_end(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_timeouts, "PEER_FIRST_SECONDS", 0.01)
    # Only the timer that this is about ends the wait.
    monkeypatch.setattr(client_timeouts, "DRAIN_SECONDS_MAX", FOR_EVER)
    with connect(server.address) as client:
        client.send(Connection.Close(200, "", 0, 0), 0)
        client.expect(Connection.CloseOk, 0)
        expect_orderly_end(server, client)


def test_a_client_that_still_writes_reads_the_reason_of_the_servers_close(
    server: ThreadedServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send_raw(frame_octets(4, 1, b"no such frame type"))
        close = client.expect(Connection.Close, 0)
        assert close.reply_code == 501
        client.send(Connection.CloseOk(), 0)
        still_write(server, client)
        expect_orderly_end(server, client)


def test_a_client_with_a_wrong_password_reads_the_refusal(server: ThreadedServer) -> None:
    with AmqpClient(server.address) as client:
        client.start(password="wrong")
        assert client.expect(Connection.Close, 0).reply_code == 403
        client.send(Connection.CloseOk(), 0)
        still_write(server, client)
        expect_orderly_end(server, client)


def test_a_client_that_gets_no_reason_sees_the_end_of_the_connection(
    server: ThreadedServer,
) -> None:
    with AmqpClient(server.address) as client:
        client.start(password="wrong", capabilities={})
        # The server does not read this before it closes the socket.
        client.send_raw(MORE)
        still_write(server, client)
        expect_orderly_end(server, client)


def test_a_client_of_another_protocol_reads_the_servers_header(server: ThreadedServer) -> None:
    with AmqpClient(server.address) as client:
        client.send_raw(b"POST /a/long/upload HTTP/1.1\r\n\r\n")
        still_write(server, client)
        assert client.socket.recv(8, socket.MSG_WAITALL) == PROTOCOL_HEADER
        expect_orderly_end(server, client)


def test_unsent_octets_are_sent_before_a_close(server: ThreadedServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("heap", durable=False)
        octets = client.publish_octets(
            Basic.Publish(0, "", "heap"), b"x" * 10_000, Basic.Properties()
        )
        client.send_raw(octets * 2_000)
        while client.expect(Basic.Ack).delivery_tag != 2_000:
            pass
        client.send(Basic.Consume(queue="heap", no_ack=True))
        server.wait_until(lambda: not all(each.is_writable for each in server.connections))
        client.send(Connection.Close(200, "", 0, 0), 0)
        still_write(server, client)
        method = client.receive()[1]
        while not isinstance(method, Connection.CloseOk):
            method = client.receive()[1]
        expect_orderly_end(server, client)


def test_the_end_comes_behind_a_large_message_that_was_unsent_at_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_timeouts, "PEER_FIRST_SECONDS", 0.0)
    monkeypatch.setattr(client_timeouts, "DRAIN_SECONDS_MAX", FOR_EVER)
    body = b"x" * (32 * 1024 * 1024)
    limits = Limits(
        linger_seconds_max=FOR_EVER, write_buffer_bytes_per_connection_max=2 * len(body)
    )
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("heap", durable=False)
        client.publish(body, "heap")
        client.expect_confirmed()
        client.consume("heap", no_ack=True)
        server.wait_until(lambda: not all(each.is_writable for each in server.connections))
        client.send(Connection.Close(200, "", 0, 0), 0)
        still_write(server, client)
        assert client.expect_delivery().body == body
        client.expect(Connection.CloseOk, 0)
        expect_orderly_end(server, client)


def test_the_server_waits_a_limited_time_for_a_client_that_does_not_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the timer that this is about ends the wait.
    monkeypatch.setattr(client_timeouts, "DRAIN_SECONDS_MAX", FOR_EVER)
    limits = Limits(linger_seconds_max=0.05)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        connect(server.address) as client,
    ):
        client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
        server.wait_until(lambda: not server.server.connections)


def test_the_server_waits_a_limited_time_for_the_answer_to_its_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_timeouts, "CLOSE_SECONDS_MAX", 0.05)
    with (
        ThreadedServer(tmp_path / "data") as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        client.send_raw(frame_octets(4, 1, b"no such frame type"))
        assert client.expect(Connection.Close, 0).reply_code == 501
        # It does not answer.
        client.expect_end()
        server.wait_until(lambda: not server.server.connections)


def test_the_server_waits_for_a_limited_number_of_closing_clients(tmp_path: Path) -> None:
    limits = Limits(linger_seconds_max=FOR_EVER, lingering_connections_max=1)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        connect(server.address) as waited_for,
        connect(server.address) as other,
        connect(server.address) as witness,
    ):
        for client in (waited_for, other):
            client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
        server.wait_until(lambda: len(server.server.connections) == 2)
        assert server.call(lambda: len(server.server.context.lingering)) == 1
        still_write(server, waited_for)
        witness.open_channel()


def test_a_connection_that_is_dropped_may_be_closed_in_the_same_turn(
    server: ThreadedServer,
) -> None:
    with AmqpClient(server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)
        (connection,) = server.connections

        def drop_and_close() -> None:
            connection.pause_reading("test")
            connection.abandon("test")
            connection.close()

        server.call(drop_and_close)
        server.wait_until(lambda: not server.server.connections)
        assert server.call(lambda: len(server.server.context.lingering)) == 0


def test_the_resources_of_a_client_are_released_before_it_closes_its_side(
    server: ThreadedServer,
) -> None:
    with connect(server.address) as owner, connect(server.address) as other:
        owner.open_channel()
        owner.declare("mine", exclusive=True)
        owner.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
        other.open_channel()
        other.declare("mine", exclusive=True)


def test_the_server_ignores_methods_of_a_client_that_has_closed(server: ThreadedServer) -> None:
    with connect(server.address) as client, connect(server.address) as other:
        client.open_channel()
        client.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
        client.send(Channel.Open())
        client.send(Queue.Declare(queue="late"))
        still_write(server, client)
        other.open_channel()
        other.send(Queue.Declare(queue="late", passive=True))
        other.expect_channel_close(404)


def test_a_stop_does_not_wait_for_peers_that_do_not_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_and_stop, "SHUTDOWN_SECONDS_MAX", 0.4)
    limits = Limits(linger_seconds_max=FOR_EVER)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        connect(server.address) as gone,
        connect(server.address) as reader,
    ):
        gone.call(Connection.Close(200, "", 0, 0), Connection.CloseOk, 0)
        server.wait_until(lambda: len(server.server.context.lingering) == 1)
        server.call(server._ending.set)
        assert reader.expect(Connection.Close, 0).reply_code == 320
        reader.send(Connection.CloseOk(), 0)
        server.stop()
        assert not server.server.connections


def test_a_peer_that_resets_its_socket_while_it_is_closed_is_no_error(
    start_server: StartServer,
) -> None:
    server = start_server()
    for _ in range(50):
        client = connect(server.address)
        # Closed at once, with a reset.
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.send(Connection.Close(200, "", 0, 0), 0)
        client.socket.close()
    with connect(server.address) as client:
        client.open_channel()
