"""Who may come in, and where to: what a handshake asks of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.authentication import may_login
from amqp_server.protocol.connection_machine import ConnectionMachine

if TYPE_CHECKING:
    from amqp_server.server import Server


def new_machine(server: Server, peer: str) -> ConnectionMachine:
    """Return the handshake of a new connection to `server` from the address `peer`."""
    limits = server.config.limits
    return ConnectionMachine(
        Gate(server, peer),
        server.server_properties,
        frame_max=limits.frame_bytes_max,
        frame_min=limits.frame_bytes_min,
        channel_max=limits.channels_per_connection_max,
        heartbeat_seconds=limits.heartbeat_seconds,
    )


class Gate:
    """The gatekeeper of one peer; `amqp_server.protocol.connection_machine.Gatekeeper`.

    Args:
        server: Whose virtual hosts and settings count.
        peer: Address that the connection comes from.
    """

    def __init__(self, server: Server, peer: str) -> None:
        """Stand before one connection."""
        self._server = server
        self._peer = peer

    def may_login(self, user: str, password: bytes) -> bool:
        """Return whether this client may use this name and password from where it is."""
        anywhere = self._server.config.guest_from_anywhere
        return may_login(user, password, self._peer, from_anywhere=anywhere)

    def has_vhost(self, name: str) -> bool:
        """Return whether there is such a virtual host."""
        return name in self._server.broker.vhosts
