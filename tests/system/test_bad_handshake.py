"""Clients that get the handshake wrong or stop in it: log lines, and how long they may stay."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pamqp.commands import Channel, Connection, Queue

from amqp_server.base.config import Limits
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, ConnectionLostError, connect
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

NOT_AMQP = {
    "garbage": (b"\x93\x01\x00garbage", "not an AMQP client"),
    "http": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
    "tls_hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
    "amqp_1_0": (b"AMQP\x00\x01\x00\x00", "another version of AMQP"),
    "amqp_0_8": (b"AMQP\x01\x01\x08\x00", "another version of AMQP"),
    "two_octets": (b"\r\n", "not an AMQP client"),
}


@pytest.mark.parametrize("name", NOT_AMQP)
def test_the_log_names_the_other_protocol_that_a_client_speaks(
    shared_server: RunningServer, witness: AmqpClient, name: str
) -> None:
    octets, hint = NOT_AMQP[name]
    with AmqpClient(shared_server.address) as client:
        client.send_raw(octets)
        assert read_to_end(client) == PROTOCOL_HEADER
    shared_server.wait_for_message(hint)


def read_to_end(client: AmqpClient) -> bytes:
    """Return everything that comes before the server closes."""
    received = b""
    try:
        while True:
            received += client.receive_raw()
    except ConnectionLostError:
        return received


def test_a_wrong_password_is_not_logged(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.start(password="nobodys-secret")
        client.expect_connection_close(403)
    line = shared_server.wait_for_message("login refused")
    assert "nobodys-secret" not in line


@pytest.fixture(scope="module")
def brisk_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedServer]:
    """Start a server that closes a refused connection after 50 ms."""
    limits = Limits(refused_login_seconds=0.05)
    with ThreadedServer(tmp_path_factory.mktemp("brisk") / "data", limits=limits) as server:
        yield server


def test_a_client_with_a_wrong_password_has_to_wait(tmp_path: Path) -> None:
    # The limit of the handshake is not what ends it.
    limits = Limits(refused_login_seconds=0.5, handshake_seconds_max=3600.0)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        AmqpClient(server.address) as client,
    ):
        client.start(password="wrong", capabilities={})
        begun = time.monotonic()
        # The server does not read what the client sends during that time.
        client.send_raw(b"AMQP" * 100)
        client.expect_end()
        assert time.monotonic() - begun > 0.4


@pytest.mark.parametrize(
    "method",
    [Connection.Open("/"), Channel.Open(), Queue.Declare(queue="q"), Connection.TuneOk()],
    ids=["open", "channel.open", "queue.declare", "tune-ok"],
)
def test_methods_before_the_login_are_refused(
    brisk_server: ThreadedServer, method: Channel.Open
) -> None:
    with AmqpClient(brisk_server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)
        client.send(method, 0 if method.name.startswith("Connection") else 1)
        # The server does not know yet whether the client takes a connection.close.
        assert read_to_end(client) == b""


@pytest.mark.parametrize("step", ["nothing", "header", "start-ok", "tune-ok"])
def test_a_client_that_stops_in_the_handshake_is_disconnected(tmp_path: Path, step: str) -> None:
    limits = Limits(handshake_seconds_max=0.2)
    with ThreadedServer(tmp_path / "data", limits=limits) as server:
        # On a slow machine its time is over before it has come so far.
        lost = suppress(ConnectionLostError, ConnectionError)
        with AmqpClient(server.address) as client, lost:
            if step == "header":
                client.send_raw(PROTOCOL_HEADER)
            elif step == "start-ok":
                client.start()
            elif step == "tune-ok":
                client.login()
                client.send(Connection.TuneOk(2047, 131_072, 0), 0)
            read_to_end(client)
        server.wait_until(lambda: not server.server.connections)
        # The next client has as much time as it needs.
        server.call(lambda: object.__setattr__(server.server.context.config, "limits", Limits()))
        with connect(server.address) as client:
            client.open_channel()


def test_a_connection_too_many_is_closed(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path / "data", connections_max=2) as server,
        connect(server.address),
        connect(server.address) as second,
    ):
        with AmqpClient(server.address) as third:
            assert read_to_end(third) == b""
        second.close()
        server.wait_until(lambda: len(server.server.connections) == 1)
        with connect(server.address) as fourth:
            fourth.open_channel()
