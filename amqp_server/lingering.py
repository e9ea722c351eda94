"""Connections that have said all and wait for their peers to close: so many at most."""

from __future__ import annotations


class Lingering:
    """The half-closed connections of a server. The event loop owns it.

    Each holds a descriptor and is read for nothing, so there is a bound.

    Args:
        count_max: Connections at a time; one more is closed at once.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._connections: set[object] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._connections)

    def admit(self, connection: object) -> bool:
        """Take in a connection and return whether there was room for it."""
        if len(self._connections) >= self._count_max:
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: object) -> None:
        """Release the place of a connection; one that has none is passed over."""
        self._connections.discard(connection)
