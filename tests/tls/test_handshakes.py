"""Handshakes that fail: one line in the log that says why, and nobody else notices."""

from __future__ import annotations

import datetime
import socket
import ssl
import struct
import threading
from contextlib import ExitStack

import pytest
from pamqp.commands import Connection

from amqp_server.base.config import Limits
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient
from tests.limits import HANG_SECONDS
from tests.tls.certificates import DAY, Authority, common_name
from tests.tls.conftest import StartTls, TlsServer

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def server(authority: Authority, start_tls: StartTls) -> TlsServer:
    """Start a server that demands certificates of its clients."""
    return start_tls(
        **authority.server_pair().settings,
        tls_ca=str(authority.path),
        tls_verify="peer",
        tls_fail_if_no_peer_cert=True,
    )


def expect_one_warning(server: TlsServer, caplog: pytest.LogCaptureFixture, *texts: str) -> None:
    """Stop the server, and see that it has logged one warning, with these texts."""
    server.stop()
    warnings = [each.getMessage() for each in caplog.records if each.levelname != "INFO"]
    (warning,) = [each for each in warnings if not each.startswith("guest logged in")]
    assert all(text in warning for text in texts), warning
    assert "Traceback" not in caplog.text


def expect_refusal(server: TlsServer, trust: ssl.SSLContext) -> str:
    """Shake hands, and return the alert that refuses the client's certificate."""
    with pytest.raises(ssl.SSLError) as refused, server.shake_hands(trust) as client:
        # With TLS 1.3 the client is done before the server has seen its certificate.
        client.recv(1)
    return refused.value.reason


def test_a_client_with_a_certificate_connects(authority: Authority, server: TlsServer) -> None:
    pair = authority.client_pair(common_name("someone"))
    with server.connect(authority.trust(pair)) as client:
        (shown,) = server.call(lambda: [each.tls for each in server.connections])
        client.close()
    assert shown is not None
    assert shown.peer_cert_subject == "CN=someone"
    assert "O=tests ca" in shown.peer_cert_issuer
    begin, _, end = shown.peer_cert_validity.partition(" - ")
    assert datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin) == 2 * DAY


def test_a_client_without_a_certificate(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert expect_refusal(server, authority.trust()) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    expect_one_warning(
        server,
        caplog,
        "TLS handshake failed peer=127.0.0.1:",
        "reason=the client has no certificate",
    )


def test_a_certificate_that_has_expired(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.client_pair(common_name("late"), begins=-2 * DAY, ends=-HOUR)
    assert expect_refusal(server, authority.trust(pair)) == "SSLV3_ALERT_CERTIFICATE_EXPIRED"
    expect_one_warning(
        server, caplog, "the client's certificate is refused: certificate has expired"
    )


def test_a_certificate_that_is_not_valid_yet(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.client_pair(common_name("early"), begins=HOUR, ends=DAY)
    assert expect_refusal(server, authority.trust(pair)) == "SSLV3_ALERT_BAD_CERTIFICATE"
    expect_one_warning(
        server, caplog, "the client's certificate is refused: certificate is not yet valid"
    )


def test_a_certificate_of_another_authority(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Authority(authority.directory, "other").client_pair(common_name("someone"))
    assert expect_refusal(server, authority.trust(pair)) == "TLSV1_ALERT_UNKNOWN_CA"
    expect_one_warning(server, caplog, "the client's certificate is refused: ")


def test_a_client_that_trusts_another_authority(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        server.shake_hands(Authority(authority.directory, "other").trust())
    expect_one_warning(server, caplog, "the client does not trust the server's certificate")


def test_a_client_of_an_old_version(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    old = authority.trust()
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        server.shake_hands(old)
    expect_one_warning(server, caplog, "no version of TLS that this port accepts")


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (PROTOCOL_HEADER, "the client speaks no TLS; this port needs it"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP client; this port speaks AMQP 0-9-1 over TLS"),
    ],
    ids=["AMQP", "HTTP"],
)
def test_a_client_without_tls_on_the_port_for_tls(
    server: TlsServer, caplog: pytest.LogCaptureFixture, octets: bytes, reason: str
) -> None:
    with AmqpClient(server.tls_address) as client:
        client.send_raw(octets)
        while client.socket.recv(100):
            pass
    expect_one_warning(server, caplog, f"reason={reason}")


def test_a_client_with_tls_on_the_plain_port(
    authority: Authority, server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    plain = socket.create_connection(server.address, timeout=HANG_SECONDS)
    with plain, pytest.raises(ssl.SSLError):
        authority.trust().wrap_socket(plain, server_hostname="localhost")
    expect_one_warning(server, caplog, "a TLS client; this port speaks AMQP 0-9-1 without TLS")


def test_a_client_that_says_nothing_is_closed_in_time(
    authority: Authority, start_tls: StartTls, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(handshake_seconds_max=0.05)
    server = start_tls(limits=limits, **authority.server_pair().settings)
    with AmqpClient(server.tls_address) as client:
        client.send_raw(b"\x16\x03")
        client.expect_end()
    expect_one_warning(server, caplog, "TLS handshake failed", "reason=it took longer than 0.05 s")


def test_a_health_check_is_not_logged(server: TlsServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with AmqpClient(server.tls_address) as client:
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_end()
    with AmqpClient(server.tls_address) as client:
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
        # As HAProxy does: the socket ends with a reset.
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.wait_until(lambda: server.running.listeners.arrival_count == 0)
    server.stop()
    assert "TLS" not in caplog.text


def test_handshakes_above_the_limit_wait_for_their_turn(
    authority: Authority, start_tls: StartTls
) -> None:
    server = start_tls(limits=Limits(tls_handshakes_max=1), **authority.server_pair().settings)
    trust = authority.trust()
    with AmqpClient(server.tls_address) as silent:
        silent.send_raw(b"\x16\x03\x01")
        clients: list[AmqpClient] = []
        threads = [
            threading.Thread(target=lambda: clients.append(server.connect(trust))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        listeners = server.running.listeners
        server.wait_until(lambda: listeners.arrival_count == 9)
        assert clients == []
        silent.socket.close()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert len(clients) == 8
        for client in clients:
            with client:
                client.close()
    server.wait_until(lambda: listeners.arrival_count == 0)


def test_silent_clients_of_one_address_keep_no_other_address_waiting(
    authority: Authority, start_tls: StartTls
) -> None:
    limits = Limits(tls_handshakes_max=4, handshake_seconds_max=60.0)
    server = start_tls(limits=limits, **authority.server_pair().settings)
    with ExitStack() as silent:
        for _ in range(8):
            there = socket.create_connection(server.tls_address, source_address=("127.0.0.2", 0))
            silent.enter_context(there)
        server.wait_until(lambda: server.running.listeners.arrival_count == 8)
        with server.connect(authority.trust()) as client:
            client.close()
    server.wait_until(lambda: server.running.listeners.arrival_count == 0)


def test_sockets_in_their_handshake_count_as_connections(
    authority: Authority, start_tls: StartTls, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_tls(connections_max=2, **authority.server_pair().settings)
    with AmqpClient(server.tls_address) as first, AmqpClient(server.tls_address) as second:
        server.wait_until(lambda: server.running.listeners.arrival_count == 2)
        with AmqpClient(server.tls_address) as third:
            third.expect_end()
        first.socket.close()
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
        with server.connect(authority.trust()) as client:
            client.close()
        second.socket.close()
    expect_one_warning(server, caplog, "connection refused", "too many connections")


def test_a_stop_ends_handshakes_that_are_under_way(
    authority: Authority, start_tls: StartTls
) -> None:
    server = start_tls(**authority.server_pair().settings)
    with AmqpClient(server.tls_address) as silent:
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
        with server.connect(authority.trust()) as client:
            server.call(lambda: None)
            threading.Thread(target=server.stop).start()
            assert client.expect(Connection.Close, 0).reply_code == 320
            client.send(Connection.CloseOk(), 0)
        silent.expect_end()
    server.stop()
