"""Peers that get the handshake wrong, or speak another protocol altogether."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pamqp import encode
from pamqp.commands import Basic, Channel, Connection, Queue

from amqp_server.config import Limits
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
def test_another_protocol_is_told_ours_and_let_go(
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


def test_a_protocol_header_may_come_in_pieces(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        for octet in PROTOCOL_HEADER:
            client.send_raw(bytes([octet]))
        client.expect(Connection.Start, 0)


def test_half_a_protocol_header_is_no_connection(
    shared_server: RunningServer, witness: AmqpClient
) -> None:
    with AmqpClient(shared_server.address) as client:
        client.send_raw(PROTOCOL_HEADER[:5])
        client.socket.shutdown(socket.SHUT_WR)
        assert read_to_end(client) == b""


def test_the_older_protocol_header_is_taken(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.send_raw(b"AMQP\x01\x01\x00\x09")
        client.expect(Connection.Start, 0)


def test_a_wrong_password_is_told_to_a_client_that_can_be_told(
    shared_server: RunningServer,
) -> None:
    with AmqpClient(shared_server.address) as client:
        client.start(password="nobodys-secret")
        close = client.expect_connection_close(403)
        assert close.reply_text == (
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
            "For details see the broker logfile."
        )
        assert (close.class_id, close.method_id) == (0, 0)
        assert "nobodys-secret" not in "".join(shared_server.messages[-3:])


@pytest.fixture(scope="module")
def brisk_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedServer]:
    """Start a server that does not let those wait for long whom it refuses in silence."""
    limits = Limits(refused_login_seconds=0.05)
    with ThreadedServer(tmp_path_factory.mktemp("brisk") / "data", limits=limits) as server:
        yield server


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": False}])
@pytest.mark.parametrize("mechanism", ["PLAIN", "EXTERNAL"])
def test_a_refused_login_just_ends_the_connection_of_other_clients(
    brisk_server: ThreadedServer, capabilities: dict[str, bool], mechanism: str
) -> None:
    with AmqpClient(brisk_server.address) as client:
        client.start(password="wrong", mechanism=mechanism, capabilities=capabilities)
        client.expect_end()


def test_a_client_that_guesses_passwords_has_to_wait(tmp_path: Path) -> None:
    limits = Limits(refused_login_seconds=0.5)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        AmqpClient(server.address) as client,
    ):
        client.start(password="wrong", capabilities={})
        begun = time.monotonic()
        # What it sends meanwhile is not even read.
        client.send_raw(b"AMQP" * 100)
        client.expect_end()
        assert time.monotonic() - begun > 0.4


def test_an_unknown_user_is_answered_as_a_wrong_password(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.start(user="nobody")
        close = client.expect_connection_close(403)
        assert "Login was refused" in (close.reply_text or "")


CAN_BE_TOLD: Any = {"capabilities": {"authentication_failure_close": True}}


def answer_start(client: AmqpClient, mechanism: str, response: str) -> None:
    """Greet, and give the mechanism this response."""
    client.send_raw(PROTOCOL_HEADER)
    client.expect(Connection.Start, 0)
    client.send(Connection.StartOk(CAN_BE_TOLD, mechanism, response, "en_US"), 0)


@pytest.mark.parametrize("response", ["", "guest", "\0guest", "\0a\0b\0c", "admin\0guest\0guest"])
def test_a_malformed_plain_response_is_refused(shared_server: RunningServer, response: str) -> None:
    with AmqpClient(shared_server.address) as client:
        answer_start(client, "PLAIN", response)
        close = client.expect_connection_close(502)
        assert close.reply_text == (
            "SYNTAX_ERROR - malformed PLAIN response: expected NUL user NUL password"
        )
        assert (close.class_id, close.method_id) == (10, 11)


def amqplain(**fields: object) -> str:
    """Return the response of AMQPLAIN: a table without its length."""
    table: Any = fields
    return encode.field_table(table)[4:].decode("latin-1")


def test_amqplain_is_a_login_as_well(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        answer_start(client, "AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="guest"))
        client.expect(Connection.Tune, 0)


@pytest.mark.parametrize("password", ["wrong", "", 7])
def test_a_wrong_password_by_amqplain_is_refused(
    shared_server: RunningServer, password: object
) -> None:
    with AmqpClient(shared_server.address) as client:
        answer_start(client, "AMQPLAIN", amqplain(LOGIN="guest", PASSWORD=password))
        close = client.expect_connection_close(403)
        assert close.reply_text == (
            "ACCESS_REFUSED - Login was refused using authentication mechanism AMQPLAIN. "
            "For details see the broker logfile."
        )
        assert (close.class_id, close.method_id) == (0, 0)


def test_amqplain_without_a_password_is_malformed(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        answer_start(client, "AMQPLAIN", amqplain(LOGIN="guest"))
        close = client.expect_connection_close(502)
        assert close.reply_text == (
            "SYNTAX_ERROR - malformed AMQPLAIN response: expected LOGIN and PASSWORD"
        )
        assert (close.class_id, close.method_id) == (10, 11)


def test_an_unknown_mechanism_is_refused(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.start(mechanism="EXTERNAL")
        close = client.expect_connection_close(503)
        assert close.reply_text == ("COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'")
        assert (close.class_id, close.method_id) == (10, 11)


def test_a_missing_virtual_host_is_refused(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        tune = client.login()
        client.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        client.send(Connection.Open("nowhere"), 0)
        close = client.expect_connection_close(530)
        assert close.reply_text == "NOT_ALLOWED - vhost nowhere not found"
        assert (close.class_id, close.method_id) == (10, 40)


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2047, 4095, "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (2047, 131_073, "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (2047, 0, "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (2048, 131_072, "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (0, 131_072, "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    ],
)
def test_tuning_past_what_was_offered_is_refused(
    shared_server: RunningServer, channel_max: int, frame_max: int, text: str
) -> None:
    with AmqpClient(shared_server.address) as client:
        client.login()
        client.send(Connection.TuneOk(channel_max, frame_max, 0), 0)
        close = client.expect_connection_close(530)
        assert close.reply_text == f"NOT_ALLOWED - negotiated {text}"
        assert (close.class_id, close.method_id) == (10, 31)


def test_a_frame_above_the_negotiated_size_is_a_frame_error(shared_server: RunningServer) -> None:
    with connect(shared_server.address, frame_max=4096) as client:
        client.open_channel()
        client.send_raw(b"\x03\x00\x01" + (5000).to_bytes(4, "big") + b"x" * 5000 + b"\xce")
        client.expect_connection_close(501)


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
        # It could not say yet whether it wants to be told why.
        assert read_to_end(client) == b""


def test_a_step_of_the_handshake_may_not_be_left_out(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.login()
        client.send(Connection.Open("/"), 0)
        close = client.expect_connection_close(504)
        assert close.reply_text == "CHANNEL_ERROR - unexpected method in connection state tuning"


def test_a_channel_before_the_virtual_host_is_refused(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.login()
        client.send(Channel.Open(), 1)
        close = client.expect_connection_close(505)
        assert close.reply_text == ("UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,1,48>>")
        assert (close.class_id, close.method_id) == (0, 0)


def test_an_ack_before_the_virtual_host_is_refused(shared_server: RunningServer) -> None:
    with AmqpClient(shared_server.address) as client:
        client.login()
        client.send(Basic.Ack(1), 1)
        close = client.expect_connection_close(505)
        assert close.reply_text == (
            "UNEXPECTED_FRAME - type 1, all octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>"
        )


@pytest.mark.parametrize("step", ["nothing", "header", "start-ok", "tune-ok"])
def test_a_client_that_stops_in_the_handshake_is_let_go(tmp_path: Path, step: str) -> None:
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
        ThreadedServer(tmp_path / "data", limits=Limits(connections_max=2)) as server,
        connect(server.address),
        connect(server.address) as second,
    ):
        with AmqpClient(server.address) as third:
            assert read_to_end(third) == b""
        second.close()
        server.wait_until(lambda: len(server.server.connections) == 1)
        with connect(server.address) as fourth:
            fourth.open_channel()
