"""Makes the AMQP handshake of each connection, with the server's users and virtual hosts.

Also what `connection.start` says of the server: its name and capabilities.
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from amqp_server.connections.authentication import PeerAuthenticator
from amqp_server.protocol.connection_machine import ConnectionMachine
from amqp_server.protocol.field_values import table_of

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.connections.authentication import Authentication
    from amqp_server.protocol.connection_machine import Authenticator
    from amqp_server.protocol.field_values import Table

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Capabilities that the broker really has: clients switch features on by them."""


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


def server_properties(config: ServerConfig) -> Table:
    """Return the server-properties table, with the keys that RabbitMQ uses."""
    return table_of(
        {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": f"amqp-server@{socket.gethostname()}",
            "copyright": "Copyright (c) the authors of amqp-server",
            "information": "Licensed under the Apache License 2.0",
            "platform": f"Python {sys.version.split()[0]}",
            "product": config.present_product,
            "version": config.present_version,
        }
    )
