"""Sockets that are accepted, but no connections of clients yet: a handshake or a header is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.connections.open_connections import OpenConnections


class Arrival(Protocol):
    """One such socket."""

    def abort(self) -> None:
        """Close the socket at once."""


class Arrivals:
    """All such sockets of one server. The event loop owns it.

    Args:
        connections: Connections of clients.
        count_max: Sockets and connections together that may be open at the same time.
    """

    def __init__(self, connections: OpenConnections, count_max: int) -> None:
        self._connections = connections
        self._count_max = count_max
        self._arrivals: set[Arrival] = set()

    def __len__(self) -> int:
        """Return their number."""
        return len(self._arrivals)

    def admit(self, arrival: Arrival) -> bool:
        """Add a socket; return False if there are too many or none is let in."""
        open_count = len(self._arrivals) + len(self._connections)
        is_closed = self._connections.is_refusing
        if is_closed or open_count >= self._count_max:
            return False
        self._arrivals.add(arrival)
        return True

    def remove(self, arrival: Arrival) -> None:
        """Remove a socket that is a connection now, or closed; ignore one that is not there."""
        self._arrivals.discard(arrival)

    def close(self) -> None:
        """Close all of them: the server stops."""
        for arrival in tuple(self._arrivals):
            arrival.abort()
