"""Clients behind proxies: trusted ones, others, with and without TLS, on both event loops."""

from __future__ import annotations

import socket
from contextlib import suppress
from itertools import pairwise

import pytest
from pamqp.commands import Connection

from amqp_server.connections.proxy_protocol import connection as proxied
from amqp_server.connections.proxy_protocol.header import SIGNATURE_V2
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient
from tests.limits import HANG_SECONDS
from tests.proxy_protocol.test_header import (
    ADDRESSES_V4,
    LINE_V4,
    LINE_V6,
    V2_V4,
    V2_V6,
    version_2,
)
from tests.tls.certificates import Authority
from tests.tls.conftest import StartTls, TlsServer, authority, start_tls

__all__ = ["authority", "start_tls"]

FROM_V4 = "192.0.2.7:56324 -> 198.51.100.1:5672"
FROM_V6 = "2001:db8::7:56324 -> 2001:db8::1:5672"


@pytest.fixture
def server(authority: Authority, start_tls: StartTls) -> TlsServer:
    """Start a server that trusts proxies on this machine."""
    return start_tls(
        **authority.server_pair().settings,
        proxy_protocol_trusted="127.0.0.0/8,::1",
        guest_from_anywhere=True,
    )


def log_in(client: AmqpClient) -> None:
    """Go through the rest of the handshake of a client that has sent a header."""
    client.open()
    client.open_channel()


def names(server: TlsServer) -> list[str]:
    """Return the names of the open connections."""
    return server.call(lambda: [each.name for each in server.connections])


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (LINE_V4, FROM_V4),
        (LINE_V6, FROM_V6),
        (V2_V4, FROM_V4),
        (V2_V6, FROM_V6),
        (version_2(0x21, 0x11, ADDRESSES_V4 + bytes(500)), FROM_V4),
    ],
    ids=["v1-4", "v1-6", "v2-4", "v2-6", "TLVs"],
)
def test_the_client_is_the_one_that_the_proxy_names(
    server: TlsServer, header: bytes, name: str
) -> None:
    with AmqpClient(server.address) as client:
        client.send_raw(header)
        log_in(client)
        assert names(server) == [name]
        client.close()


@pytest.mark.parametrize("header", [LINE_V4, V2_V4], ids=["v1", "v2"])
@pytest.mark.parametrize("cuts", [1, 7], ids=["octet by octet", "in parts"])
def test_a_header_may_come_in_parts(server: TlsServer, header: bytes, cuts: int) -> None:
    with AmqpClient(server.address) as client:
        for begin, end in pairwise([*range(0, len(header), cuts), len(header)]):
            client.send_raw(header[begin:end])
        log_in(client)
        assert names(server) == [FROM_V4]
        client.close()


@pytest.mark.parametrize("header", [LINE_V4, V2_V4], ids=["v1", "v2"])
def test_what_follows_the_header_at_once_is_the_clients(server: TlsServer, header: bytes) -> None:
    with AmqpClient(server.address) as client:
        client.send_raw(header + PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)


@pytest.mark.parametrize(
    "header",
    [b"", b"PROXY UNKNOWN\r\n", version_2(0x20, 0x00, b""), version_2(0x20, 0x11, ADDRESSES_V4)],
    ids=["none", "UNKNOWN", "LOCAL", "LOCAL with addresses"],
)
def test_a_proxy_that_speaks_for_itself(server: TlsServer, header: bytes) -> None:
    with AmqpClient(server.address) as client:
        if header:
            client.send_raw(header)
        log_in(client)
        (name,) = names(server)
        assert name.startswith("127.0.0.1:")
        client.close()


@pytest.mark.parametrize("header", [LINE_V4, V2_V6, b""], ids=["v1", "v2", "none"])
@pytest.mark.parametrize("is_at_once", [True, False])
def test_the_header_comes_before_tls(
    authority: Authority,
    server: TlsServer,
    header: bytes,
    is_at_once: bool,
) -> None:
    plain = socket.create_connection(server.tls_address, timeout=HANG_SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if is_at_once:
        # The header shares a packet with the first octets of TLS.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    plain.sendall(header)
    secret = authority.trust().wrap_socket(
        plain, server_hostname="localhost", do_handshake_on_connect=False
    )
    if is_at_once:
        secret.settimeout(0)
        with pytest.raises(OSError):  # noqa: PT011 - it wants the server's part
            secret.do_handshake()
        secret.settimeout(HANG_SECONDS)
        secret.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    secret.do_handshake()
    with AmqpClient(server.tls_address, over=secret) as client:
        log_in(client)
        (name,) = names(server)
        expected = {LINE_V4: FROM_V4, V2_V6: FROM_V6}.get(header)
        assert name == expected or (expected is None and name.startswith("127.0.0.1:"))
        client.close()


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"PROXY TCP4 nonsense\r\n", "version 1: not TCP4 or TCP6"),
        (b"PROXY TCP4 " + b"1" * 200, "version 1: no end of the line in 107 octets"),
        (version_2(0x21, 0x11, b"", 537), "version 2: length 537 is above 536"),
        (SIGNATURE_V2 + b"\x99\x11\x00\x00", "version 2: unknown version or command 0x99"),
    ],
    ids=["malformed", "too long", "oversized", "command"],
)
def test_a_malformed_header_closes_with_one_line(
    server: TlsServer, caplog: pytest.LogCaptureFixture, octets: bytes, reason: str
) -> None:
    with AmqpClient(server.address) as client:
        client.send_raw(octets)
        expect_closed(client)
    expect_one_refusal(server, caplog, reason)


def expect_closed(client: AmqpClient) -> None:
    """See that the server has closed the socket, without a word."""
    with suppress(ConnectionResetError):
        assert client.socket.recv(1) == b""


def expect_one_refusal(server: TlsServer, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Stop the server, and see that it has logged one warning."""
    server.stop()
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warning.startswith("PROXY header refused peer=127.0.0.1:")
    assert reason in warning
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("header", [LINE_V4, V2_V4], ids=["v1", "v2"])
def test_a_truncated_header_closes_with_one_line(
    server: TlsServer, caplog: pytest.LogCaptureFixture, header: bytes
) -> None:
    with AmqpClient(server.address) as client:
        client.send_raw(header[:-3])
        client.socket.shutdown(socket.SHUT_WR)
        expect_closed(client)
    expect_one_refusal(server, caplog, "it ends early")


def test_a_header_that_takes_too_long_closes_with_one_line(
    server: TlsServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxied, "SECONDS_MAX", 0.05)
    with AmqpClient(server.address) as client:
        client.send_raw(LINE_V4[:10])
        expect_closed(client)
    expect_one_refusal(server, caplog, "it took longer than 0.05 s")


@pytest.mark.parametrize("trusted", ["", "10.0.0.0/8"], ids=["nobody", "others"])
@pytest.mark.parametrize("header", [LINE_V4, V2_V4], ids=["v1", "v2"])
def test_a_header_from_elsewhere_is_a_bad_protocol_header(
    start_tls: StartTls,
    caplog: pytest.LogCaptureFixture,
    trusted: str,
    header: bytes,
) -> None:
    server = start_tls(proxy_protocol_trusted=trusted)
    with AmqpClient(server.address) as client:
        client.send_raw(header)
        assert client.receive_raw() == PROTOCOL_HEADER
        client.expect_end()
    server.stop()
    assert "bad protocol header peer=127.0.0.1:" in caplog.text


def test_guest_of_another_machine_is_refused_behind_a_proxy_on_this_one(
    start_tls: StartTls,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = start_tls(proxy_protocol_trusted="127.0.0.1")
    with AmqpClient(server.address) as client:
        client.send_raw(LINE_V4)
        client.start()
        assert client.expect(Connection.Close, 0).reply_code == 403
    assert "peer=192.0.2.7 reason=only from this machine" in caplog.text
    with AmqpClient(server.address) as client:
        client.send_raw(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n")
        log_in(client)
        client.close()


def test_a_proxy_that_says_nothing_is_no_connection_yet_and_ends_at_the_stop(
    server: TlsServer,
) -> None:
    with AmqpClient(server.address) as client:
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
        assert names(server) == []
        server.stop()
        expect_closed(client)
