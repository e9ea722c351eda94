"""TLS connections that end, and handshakes that fail, are freed without the garbage collector."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

import pytest

from tests.amqp_client import AmqpClient
from tests.limits import HANG_SECONDS
from tests.proxy_protocol.test_header import LINE_V4, V2_V4
from tests.system.test_freed_at_once import REPEATS, nothing_left
from tests.tls.certificates import Authority
from tests.tls.conftest import StartTls, TlsServer


def close_in_order(server: TlsServer, trust: ssl.SSLContext) -> None:
    with server.connect(trust) as client:
        client.open_channel()
        client.close()


def go_away(server: TlsServer, trust: ssl.SSLContext) -> None:
    with server.connect(trust) as client:
        client.open_channel()


def end_tls(server: TlsServer, trust: ssl.SSLContext) -> None:
    with server.connect(trust) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        client.socket.unwrap().close()


def fail(server: TlsServer, trust: ssl.SSLContext) -> None:
    del trust
    with AmqpClient(server.tls_address) as client:
        client.send_raw(b"GET / HTTP/1.1\r\n\r\n")
        while client.socket.recv(100):
            pass


def leave_the_handshake(server: TlsServer, trust: ssl.SSLContext) -> None:
    del trust
    with AmqpClient(server.tls_address) as client:
        client.send_raw(b"\x16\x03\x01")
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
    server.wait_until(lambda: server.running.listeners.arrival_count == 0)


def leave_the_header(server: TlsServer, trust: ssl.SSLContext) -> None:
    del trust
    with AmqpClient(server.tls_address) as client:
        client.send_raw(LINE_V4[:10])
        server.wait_until(lambda: server.running.listeners.arrival_count == 1)
    server.wait_until(lambda: server.running.listeners.arrival_count == 0)


def come_through_a_proxy(server: TlsServer, trust: ssl.SSLContext) -> None:
    del trust
    with AmqpClient(server.address) as client:
        client.send_raw(V2_V4)
        client.open()
        client.close()


def send_a_bad_header(server: TlsServer, trust: ssl.SSLContext) -> None:
    del trust
    with socket.create_connection(server.address, timeout=HANG_SECONDS) as client:
        client.sendall(b"PROXY nonsense\r\n")
        client.settimeout(HANG_SECONDS)
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            return


WAYS = (
    close_in_order,
    go_away,
    end_tls,
    fail,
    leave_the_handshake,
    leave_the_header,
    come_through_a_proxy,
    send_a_bad_header,
)


@pytest.mark.parametrize("end", WAYS, ids=lambda end: end.__name__)
def test_nothing_is_left(
    authority: Authority,
    start_tls: StartTls,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[TlsServer, ssl.SSLContext], None],
) -> None:
    server = start_tls(
        **authority.server_pair().settings,
        proxy_protocol_trusted="127.0.0.1",
        guest_from_anywhere=True,
    )
    trust = authority.trust()
    with nothing_left(server, caplog):
        for _ in range(REPEATS):
            end(server, trust)
