"""Reads the PROXY header of a socket, then hands the socket over: before TLS, before AMQP."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from amqp_server.base.socket_names import SocketNames, names_of
from amqp_server.connections.proxy_protocol.header import (
    HEADER_BYTES_MAX,
    ProxyHeaderError,
    may_be_header,
    parse_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.connections.accepted_connections import AcceptedConnections
    from amqp_server.connections.proxy_protocol.trusted import TrustedProxies

logger = logging.getLogger("amqp_server.proxy_protocol.connection")

SECONDS_MAX: Final = 5.0
"""Seconds that a trusted proxy may take to send its first octets, and the whole header."""


class ProxiedConnection(asyncio.BufferedProtocol):
    """The asyncio protocol of one socket until it is known whose it is.

    A socket from elsewhere than a trusted proxy is handed over at once. One from there may begin
    with a header, or as any client does.

    Args:
        protocol: Protocol that gets the socket, and everything after the header.
        on_names: Called with the names of both ends, if the header has them, before `protocol`
            gets the socket.
        trusted: Addresses of proxies whose header is believed.
        accepted: Sockets that are not connections of clients yet.
    """

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        on_names: Callable[[SocketNames], None],
        trusted: TrustedProxies,
        accepted: AcceptedConnections,
    ) -> None:
        self._protocol: asyncio.BufferedProtocol | None = protocol
        self._on_names = on_names
        self._trusted = trusted
        self._accepted = accepted
        self._socket: asyncio.Transport | None = None
        self._name = "?"
        self._buffer = b""
        self._room = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first octets of a trusted proxy; hand over any other socket."""
        # uvloop's transports have the interface, not the base class.
        self._socket = socket = cast("asyncio.Transport", transport)
        names = names_of(socket)
        self._name = names.text
        if names.peer is None:
            # It was reset before the server looked, as HAProxy ends its checks.
            socket.abort()
        elif not self._trusted.has(names.peer_host):
            self._hand_over(socket, b"")
        elif self._accepted.admit(self):
            self._room = bytearray(HEADER_BYTES_MAX)
            self._timer = asyncio.get_running_loop().call_later(SECONDS_MAX, self._time_out)
        else:
            logger.warning("connection refused peer=%s reason=too many connections", self._name)
            socket.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return room for the rest of the longest header."""
        return memoryview(self._room)[len(self._buffer) :]

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has come; hand the socket over after the end of the header."""
        self._buffer = octets = bytes(self._room[: len(self._buffer) + nbytes])
        if self._socket is None or self._socket.is_closing():
            return
        if not may_be_header(octets):
            self._hand_over(self._socket, octets)
            return
        try:
            header = parse_header(octets)
        except ProxyHeaderError as error:
            self._refuse(str(error))
            return
        if header is None:
            return
        if header.addresses is not None:
            self._on_names(SocketNames(header.addresses.source, header.addresses.destination))
        self._hand_over(self._socket, octets[header.size :])

    def eof_received(self) -> bool:
        """Return False: asyncio closes the transport."""
        if self._buffer and self._protocol is not None:
            logger.warning("PROXY header refused peer=%s reason=it ends early", self._name)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything; called only when the socket was not handed over."""
        self._release()
        self._protocol = None
        self._socket = None

    # amqp_server.connections.accepted_connections.AcceptedConnection

    def abort(self) -> None:
        """Close the socket at once: the server stops."""
        if self._socket is not None:
            self._socket.abort()

    def _hand_over(self, socket: asyncio.Transport, octets: bytes) -> None:
        """Give the socket to the next protocol, with the octets that are its."""
        self._release()
        protocol, self._protocol = self._protocol, None
        assert protocol is not None, "a socket is handed over once"
        self._socket = None
        socket.set_protocol(protocol)
        protocol.connection_made(socket)
        if octets and not socket.is_closing():
            room = cast("memoryview", protocol.get_buffer(len(octets)))
            room[: len(octets)] = octets
            protocol.buffer_updated(len(octets))

    def _refuse(self, reason: str) -> None:
        logger.warning("PROXY header refused peer=%s reason=%s", self._name, reason)
        self._protocol = None
        if self._socket is not None:
            self._socket.abort()

    def _time_out(self) -> None:
        self._refuse(f"it took longer than {SECONDS_MAX:g} s")

    def _release(self) -> None:
        self._accepted.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
