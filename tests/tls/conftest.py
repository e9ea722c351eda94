"""Servers with TLS, on both event loops, and clients of theirs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer
from tests.tls.certificates import HOST, Authority

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Make an authority."""
    return Authority(tmp_path)


class TlsServer(ThreadedServer):
    """A server inside the test's process, and where it listens for TLS."""

    @property
    def tls_address(self) -> tuple[str, int]:
        """Where to connect to."""
        assert self.running.tls_address is not None
        return self.running.tls_address

    def shake_hands(self, trust: ssl.SSLContext, name: str | None = HOST) -> ssl.SSLSocket:
        """Return a connected socket after the handshake of a client."""
        return shake_hands(self.tls_address, trust, name)

    def connect(self, trust: ssl.SSLContext, **options: Any) -> AmqpClient:  # noqa: ANN401
        """Return a client that has logged in over TLS."""
        return connect(self.tls_address, over=self.shake_hands(trust), **options)


StartTls = Callable[..., TlsServer]


@pytest.fixture(params=LOOPS)
def start_tls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartTls]:
    """Start servers on each of the event loops; they are stopped after the test."""

    class LoopServer(TlsServer):
        new_event_loop = staticmethod(LOOPS[request.param])

    with ExitStack() as running:

        def start(*arguments: Any, **settings: Any) -> TlsServer:  # noqa: ANN401
            return running.enter_context(LoopServer(tmp_path / "data", *arguments, **settings))

        yield start


def shake_hands(
    address: tuple[str, int], trust: ssl.SSLContext, name: str | None = HOST
) -> ssl.SSLSocket:
    """Connect, and return the socket after the handshake of a client."""
    plain = socket.create_connection(address, timeout=HANG_SECONDS)
    try:
        return trust.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise


def tls_address(server: RunningServer) -> tuple[str, int]:
    """Return where a server process listens for TLS."""
    line = server.wait_for_message("listening with TLS on ")
    host, _, port = line.strip().removeprefix("listening with TLS on ").rpartition(":")
    return host, int(port)
