"""Closed connections that wait for their peers to close, up to a limit."""

from __future__ import annotations


class Lingering:
    """The half-closed connections of a server. The event loop owns it.

    Each uses a file descriptor and is read although its octets are dropped, so there is a limit.

    Args:
        count_max: Connections that may wait at the same time; one more is closed at once.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._connections: set[object] = set()

    def __len__(self) -> int:
        """Return the number of half-closed connections."""
        return len(self._connections)

    def admit(self, connection: object) -> bool:
        """Add a connection if there is room; return whether there was."""
        if len(self._connections) >= self._count_max:
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: object) -> None:
        """Remove a connection; ignore one that was not added."""
        self._connections.discard(connection)
