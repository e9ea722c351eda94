"""Connects the handshakes of clients with the server's users and virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.authentication import PeerAuthenticator
from amqp_server.protocol.connection_machine import ConnectionMachine
from amqp_server.server_properties import server_properties

if TYPE_CHECKING:
    from amqp_server.authentication import Authentication
    from amqp_server.config import ServerConfig
    from amqp_server.protocol.connection_machine import Authenticator


class Handshakes:
    """Starts the handshake of each connection.

    Args:
        config: Settings and limits.
        authentication: Rules for logins.
    """

    def __init__(self, config: ServerConfig, authentication: Authentication) -> None:
        self._limits = config.limits
        self.authentication = authentication
        self._properties = server_properties(config)

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
        return PeerAuthenticator(peer, self.authentication)
