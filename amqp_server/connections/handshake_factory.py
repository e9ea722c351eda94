"""Makes the AMQP handshake of each connection, with the server's users and virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.authentication import PeerAuthenticator
from amqp_server.connections.server_properties import server_properties
from amqp_server.protocol.connection_machine import ConnectionMachine

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.connections.authentication import Authentication
    from amqp_server.protocol.connection_machine import Authenticator


class HandshakeFactory:
    """Makes the AMQP handshake of each connection.

    Args:
        config: Settings and limits.
        authentication: Rules for logins.
    """

    def __init__(self, config: ServerConfig, authentication: Authentication) -> None:
        self._config = config
        self.authentication = authentication
        self._properties = server_properties(config)

    def start(
        self, authenticator: Authenticator, certificate_user: str | None = None
    ) -> ConnectionMachine:
        """Return the handshake of a new connection.

        Args:
            authenticator: Decides about its login; see `authenticator`.
            certificate_user: User whom the client's certificate names, empty if it names none;
                None if clients are not asked for certificates.
        """
        config = self._config
        return ConnectionMachine(
            authenticator,
            self._properties,
            frame_max=config.frame_bytes_max,
            frame_min=config.limits.frame_bytes_min,
            channel_max=config.channels_per_connection_max,
            heartbeat_seconds=int(config.heartbeat_seconds),
            certificate_user=certificate_user,
        )

    def authenticator(self, peer: str) -> PeerAuthenticator:
        """Return the authenticator that decides whether a client at address `peer` may log in."""
        return PeerAuthenticator(peer, self.authentication)
