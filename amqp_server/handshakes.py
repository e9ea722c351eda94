"""Connects the handshakes of clients with the server's users and virtual hosts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.authentication import ProxyWarning, may_login
from amqp_server.protocol.connection_machine import ConnectionMachine
from amqp_server.server_properties import server_properties

if TYPE_CHECKING:
    from amqp_server.server import Server

logger = logging.getLogger(__name__)


class Handshakes:
    """Starts the handshake of each connection.

    Args:
        server: Server whose virtual hosts and settings apply.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._properties = server_properties(server.config)
        self._warning = ProxyWarning(from_anywhere=server.config.guest_from_anywhere)

    def start(self, peer: str) -> ConnectionMachine:
        """Return the handshake of a new connection from the address `peer`."""
        limits = self._server.config.limits
        return ConnectionMachine(
            PeerAuthenticator(self._server, peer, self._warning),
            self._properties,
            frame_max=limits.frame_bytes_max,
            frame_min=limits.frame_bytes_min,
            channel_max=limits.channels_per_connection_max,
            heartbeat_seconds=limits.heartbeat_seconds,
        )


class PeerAuthenticator:
    """Authenticator of one peer; `amqp_server.protocol.connection_machine.Authenticator`.

    Args:
        server: Server whose virtual hosts and settings apply.
        peer: IP address of the peer.
        warning: Warning about proxies, shared by all connections; notified of each login.
    """

    def __init__(self, server: Server, peer: str, warning: ProxyWarning) -> None:
        self._server = server
        self._peer = peer
        self._warning = warning

    def may_login(self, user: str, password: bytes) -> bool:
        """Return whether the peer may log in with this name and password from its address."""
        anywhere = self._server.config.guest_from_anywhere
        if not may_login(user, password, self._peer, from_anywhere=anywhere):
            return False
        self._warning.guest_logged_in(self._peer)
        return True

    def has_vhost(self, name: str) -> bool:
        """Return whether a virtual host exists."""
        return name in self._server.broker.vhosts

    def secret_renewed(self, user: str, reason: str) -> None:
        """Log that a client sent a new secret, and that it has no effect."""
        logger.info(
            "secret renewed peer=%s user=%s reason=%r note=passwords are checked at the login only",
            self._peer,
            user,
            reason,
        )
