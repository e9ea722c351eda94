"""Connects the handshakes of clients with the server's users and virtual hosts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.authentication import ProxyWarning, may_login
from amqp_server.protocol.connection_machine import ConnectionMachine
from amqp_server.server_properties import server_properties

if TYPE_CHECKING:
    from collections.abc import Container

    from amqp_server.config import ServerConfig
    from amqp_server.protocol.connection_machine import Authenticator

logger = logging.getLogger(__name__)


class Handshakes:
    """Starts the handshake of each connection.

    Args:
        config: Settings and limits.
        vhosts: Names of the virtual hosts that exist; the broker changes it.
    """

    def __init__(self, config: ServerConfig, vhosts: Container[str]) -> None:
        self._limits = config.limits
        self._from_anywhere = config.guest_from_anywhere
        self._vhosts = vhosts
        self._properties = server_properties(config)
        self._warning = ProxyWarning(from_anywhere=config.guest_from_anywhere)

    def start(self, peer: str) -> ConnectionMachine:
        """Return the handshake of a new connection from the address `peer`."""
        limits = self._limits
        return ConnectionMachine(
            self.authenticator(peer),
            self._properties,
            frame_max=limits.frame_bytes_max,
            frame_min=limits.frame_bytes_min,
            channel_max=limits.channels_per_connection_max,
            heartbeat_seconds=limits.heartbeat_seconds,
        )

    def authenticator(self, peer: str) -> Authenticator:
        """Return what decides whether a client at the address `peer` may log in."""
        return PeerAuthenticator(
            peer, self._vhosts, self._warning, from_anywhere=self._from_anywhere
        )


class PeerAuthenticator:
    """Authenticator of one peer; `amqp_server.protocol.connection_machine.Authenticator`.

    Args:
        peer: IP address of the peer.
        vhosts: Names of the virtual hosts that exist.
        warning: Warning about proxies, shared by all connections; notified of each login.
        from_anywhere: Whether `guest` may log in from another machine.
    """

    def __init__(
        self, peer: str, vhosts: Container[str], warning: ProxyWarning, *, from_anywhere: bool
    ) -> None:
        self._peer = peer
        self._vhosts = vhosts
        self._warning = warning
        self._from_anywhere = from_anywhere

    def may_login(self, user: str, password: bytes) -> bool:
        """Return whether the peer may log in with this name and password from its address."""
        if not may_login(user, password, self._peer, from_anywhere=self._from_anywhere):
            return False
        self._warning.guest_logged_in(self._peer)
        return True

    def has_vhost(self, name: str) -> bool:
        """Return whether a virtual host exists."""
        return name in self._vhosts

    def secret_renewed(self, user: str, reason: str) -> None:
        """Log that a client sent a new secret, and that it has no effect."""
        logger.info(
            "secret renewed peer=%s user=%s reason=%r note=passwords are checked at the login only",
            self._peer,
            user,
            reason,
        )
