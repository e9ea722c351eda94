"""Accepted connections whose TLS handshake or proxy header is not complete yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.connections.open_connections import OpenConnections


class AcceptedConnection(Protocol):
    """A socket that is accepted, but no connection of a client yet."""

    def abort(self) -> None:
        """Close the socket at once."""


class AcceptedConnections:
    """The accepted connections of one server. The event loop owns it.

    Args:
        connections: Connections of clients.
        count_max: Sockets and connections together that may be open at the same time.
    """

    def __init__(self, connections: OpenConnections, count_max: int) -> None:
        self._connections = connections
        self._count_max = count_max
        self._accepted: set[AcceptedConnection] = set()

    def __len__(self) -> int:
        """Return the number of accepted connections."""
        return len(self._accepted)

    def admit(self, connection: AcceptedConnection) -> bool:
        """Add a socket; return False if too many are open or the server accepts none."""
        open_count = len(self._accepted) + len(self._connections)
        is_closed = self._connections.is_refusing
        if is_closed or open_count >= self._count_max:
            return False
        self._accepted.add(connection)
        return True

    def remove(self, connection: AcceptedConnection) -> None:
        """Remove a socket that is a connection now, or closed; ignore one that is not there."""
        self._accepted.discard(connection)

    def close(self) -> None:
        """Close all of them at once: the server stops."""
        for connection in tuple(self._accepted):
            connection.abort()
