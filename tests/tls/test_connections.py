"""AMQP over TLS, on asyncio and on uvloop: large messages, slow readers, orderly ends."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pamqp import frame
from pamqp.commands import Basic, Connection, Queue

from amqp_server.base.config import Limits
from amqp_server.connections.client_connection import ClientConnection
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect, frame_octets
from tests.tls.certificates import Authority
from tests.tls.conftest import StartTls, TlsServer

MIB = 1024 * 1024
HELD_BYTES_MAX = 24 * MIB
"""More than every bound of a connection, and much less than what its client does not read."""
SENT_BYTES_MAX = 64 * MIB
FOR_EVER = 3600.0


@pytest.fixture
def server(authority: Authority, start_tls: StartTls) -> TlsServer:
    """Start a server with a certificate, without a bound on the time that its peers take."""
    limits = Limits(linger_seconds_max=FOR_EVER, write_buffer_bytes_per_connection_max=MIB)
    return start_tls(limits=limits, **authority.server_pair().settings)


@pytest.fixture
def trust(authority: Authority) -> ssl.SSLContext:
    """Return what a client needs."""
    return authority.trust()


def test_plain_and_tls_listeners_serve_the_same_queues(
    server: TlsServer, trust: ssl.SSLContext
) -> None:
    with connect(server.address) as plain, server.connect(trust) as secret:
        plain.open_channel(confirms=True)
        secret.open_channel(confirms=True)
        plain.declare("q")
        secret.publish(b"from TLS", "q")
        secret.expect_confirmed()
        message = plain.get("q")
        assert message is not None
        assert message.body == b"from TLS"


@pytest.mark.parametrize("size", [0, 1, 16_384, 131_064, 131_065, 5 * MIB])
def test_a_message_of_any_size_arrives_whole(
    server: TlsServer, trust: ssl.SSLContext, size: int
) -> None:
    body = bytes(each % 251 for each in range(997)) * (size // 997 + 1)
    with server.connect(trust) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(body[:size], "q")
        client.expect_confirmed()
        client.consume("q")
        assert client.expect_delivery().body == body[:size]


@pytest.mark.parametrize("piece_bytes", [1, 7, 1400])
def test_octets_may_arrive_in_pieces(
    server: TlsServer, trust: ssl.SSLContext, piece_bytes: int
) -> None:
    """Of the handshake as well as of messages."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trust.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with AmqpClient(server.tls_address) as raw:

        def exchange(step: Callable[[], Any]) -> Any:  # noqa: ANN401
            """Do a step of TLS, with as many octets in both directions as it needs."""
            while True:
                try:
                    result = step()
                except ssl.SSLWantReadError:
                    send()
                    incoming.write(raw.socket.recv(piece_bytes))
                else:
                    send()
                    return result

        def send() -> None:
            octets = outgoing.read()
            for at in range(0, len(octets), piece_bytes):
                raw.send_raw(octets[at : at + piece_bytes])

        exchange(tls.do_handshake)
        exchange(lambda: tls.write(PROTOCOL_HEADER))
        start = exchange(lambda: tls.read(65_536))
        assert start[:3] == b"\x01\x00\x00"


def test_many_small_messages_are_few_records(server: TlsServer, trust: ssl.SSLContext) -> None:
    """Each delivery as a record of its own would triple the octets of small messages."""
    with server.connect(trust) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for _ in range(1000):
            client.publish(b"x", "q")
        client.expect_confirmed()
        before = sealed_and_plain(server)
        client.consume("q")
        for _ in range(1000):
            client.expect_delivery()
        after = sealed_and_plain(server)
    plain = after[1] - before[1]
    added = after[0] - before[0]
    assert plain > 40_000
    assert added < plain / 20


def sealed_and_plain(server: TlsServer) -> tuple[int, int]:
    """Return the octets that encryption has added on the only connection, and those written."""
    (connection,) = server.connections
    assert connection._tls is not None
    return server.call(lambda: (connection._tls.overhead_bytes, connection.octets.send_oct))  # type: ignore[union-attr]


def test_a_client_that_does_not_read_costs_bounded_memory_and_counts(
    server: TlsServer, trust: ssl.SSLContext
) -> None:
    with server.connect(trust) as deaf, connect(server.address) as publisher:
        deaf.open_channel()
        deaf.declare("heap")
        deaf.send(Basic.Consume(queue="heap", no_ack=True))
        publisher.open_channel(confirms=True)
        for _ in range(64):
            publisher.publish(bytes(MIB), "heap")
        publisher.expect_confirmed()
        name = deaf.socket.getsockname()[1]
        (connection,) = [each for each in server.connections if f":{name} ->" in each.name]
        server.wait_until(lambda: not connection.is_writable)
        wait_until_calm(server, connection)
        unsent = server.call(lambda: connection.unsent_bytes)
        # It is paused above 1 MiB, and goes on below a quarter of that.
        assert MIB // 4 < unsent < HELD_BYTES_MAX
        # It takes nothing: that is how slow readers are found.
        taken = server.call(lambda: connection.taken_bytes)
        server.call(connection.beat)
        server.call(connection.beat)
        assert server.call(lambda: connection.taken_bytes) == taken
        for _ in range(64):
            while deaf.receive()[1].name != "Basic.Deliver":
                pass
        assert server.call(lambda: connection.taken_bytes) > taken


def wait_until_calm(server: TlsServer, connection: ClientConnection) -> None:
    """Return when the systems of both ends have moved what they can."""
    seen: deque[int] = deque(maxlen=100)

    def is_calm() -> bool:
        seen.append(connection.taken_bytes)
        return len(seen) == seen.maxlen and len(set(seen)) == 1

    server.wait_until(is_calm)


def test_a_client_whose_requests_are_not_read_is_bounded(
    server: TlsServer, trust: ssl.SSLContext
) -> None:
    """Both directions are full in the end, and Linux may then move nothing in either.

    So what fills the first one is asked for in one write, before anything is full.
    """
    with server.connect(trust) as deaf, connect(server.address) as publisher:
        publisher.open_channel(confirms=True)
        publisher.declare("large")
        for _ in range(32):
            publisher.publish(bytes(MIB), "large")
        publisher.expect_confirmed()
        name = deaf.socket.getsockname()[1]
        (connection,) = [each for each in server.connections if f":{name} ->" in each.name]
        deaf.open_channel()
        deaf.send_raw(frame.marshal(Basic.Get(queue="large"), 1) * 32)
        server.wait_until(lambda: connection.is_backlogged)
        questions = frame.marshal(Queue.Declare(queue="large", passive=True), 1) * 1000
        deaf.socket.setblocking(False)
        sent = 0
        with suppress(ssl.SSLWantWriteError):
            while sent < SENT_BYTES_MAX:
                sent += deaf.socket.send(questions)
        assert sent < SENT_BYTES_MAX, "the server reads without end"
        server.wait_until(lambda: connection.is_backlogged)
        assert server.call(lambda: connection.held_bytes) < HELD_BYTES_MAX


def test_what_was_sent_last_arrives_before_the_end(
    server: TlsServer, trust: ssl.SSLContext
) -> None:
    """A client that still writes reads the reason of the close, then the end of TLS."""
    with server.connect(trust) as client:
        client.open_channel()
        client.send_raw(frame_octets(4, 1, b"no such frame type"))
        close = client.expect(Connection.Close, 0)
        assert close.reply_code == 501
        client.send(Connection.CloseOk(), 0)
        server.wait_until(lambda: len(server.server.context.lingering) == 1)
        for _ in range(20):
            client.send_raw(bytes(65_536))
        assert client.socket.recv(1) == b""
        client.socket.close()
        server.wait_until(lambda: not server.server.connections)
        assert server.call(lambda: len(server.server.context.lingering)) == 0


def test_a_client_that_ends_tls_gets_the_end_of_tls(
    server: TlsServer, trust: ssl.SSLContext
) -> None:
    with AmqpClient(server.tls_address, over=server.shake_hands(trust)) as client:
        client.send_raw(PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)
        assert isinstance(client.socket, ssl.SSLSocket)
        # Raises if the socket ends without the server's close_notify.
        client.socket.unwrap()
        server.wait_until(lambda: not server.server.connections)


def test_a_socket_that_ends_without_the_end_of_tls_is_a_lost_connection(
    server: TlsServer, trust: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with server.connect(trust) as client:
        client.open_channel()
        client.socket.shutdown(socket.SHUT_RDWR)
        server.wait_until(lambda: not server.server.connections)
    assert "connection lost" in caplog.text


def test_octets_behind_the_end_of_tls_keep_no_connection_that_is_refused(
    authority: Authority, start_tls: StartTls, trust: ssl.SSLContext
) -> None:
    server = start_tls(connections_max=1, **authority.server_pair().settings)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trust.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with AmqpClient(server.tls_address) as raw:
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
        # It takes the place of the one that has not ended its handshake.
        with connect(server.address) as client:
            while True:
                with suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                    break
                raw.send_raw(outgoing.read())
                incoming.write(raw.socket.recv(65_536))
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
            raw.send_raw(outgoing.read() + bytes(5))
            raw.expect_end()
            client.open_channel()


def test_octets_that_are_changed_on_the_way_end_the_connection(
    server: TlsServer, trust: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    with server.connect(trust) as client:
        raw = socket.socket(fileno=client.socket.fileno())
        # A record of application data that no key has made.
        raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        server.wait_until(lambda: not server.server.connections)
        raw.detach()
    broken = [line for line in caplog.messages if line.startswith("TLS broken off")]
    assert len(broken) == 1
    assert "Traceback" not in caplog.text


def test_what_is_shown_of_the_connection(server: TlsServer, trust: ssl.SSLContext) -> None:
    with server.connect(trust), connect(server.address) as plain:
        plain.open_channel()
        shown = server.call(lambda: [each.tls for each in server.connections])
    assert shown.count(None) == 1
    (tls,) = [each for each in shown if each is not None]
    assert tls.ssl is True
    assert (tls.ssl_protocol, tls.ssl_key_exchange, tls.ssl_hash) == ("tlsv1.3", "any", "aead")
    assert tls.ssl_cipher == "aes_256_gcm"
    assert (tls.peer_cert_subject, tls.peer_cert_validity) == ("", "")


def test_what_is_shown_of_tls_1_2(authority: Authority, start_tls: StartTls) -> None:
    server = start_tls(
        **authority.server_pair().settings,
        tls_versions="1.2",
        tls_ciphers="ECDHE-ECDSA-AES128-GCM-SHA256",
    )
    with server.connect(authority.trust()):
        (tls,) = server.call(lambda: [each.tls for each in server.connections])
    assert tls is not None
    assert tls[:5] == (True, "tlsv1.2", "ecdhe_ecdsa", "aes_128_gcm", "aead")
