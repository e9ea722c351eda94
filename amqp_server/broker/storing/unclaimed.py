"""Messages that have found no room in their ring yet, in their order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ring import Ring


class Unclaimed:
    """What waits behind a full ring. Their publishers are not read, so it stays short."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._batches: deque[list[bytes]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Return how many messages wait."""
        return self._count

    def add(self, messages: list[bytes]) -> None:
        """Let messages wait behind the others."""
        self._batches.append(messages)
        self._count += len(messages)

    def claim(self, ring: Ring, gating_sequence: int) -> None:
        """Put into the ring what it has room for."""
        while self._batches:
            messages = self._batches[0]
            claimed = ring.try_claim(messages, gating_sequence)
            ring.publish(messages[:claimed])
            self._count -= claimed
            if claimed < len(messages):
                self._batches[0] = messages[claimed:]
                return
            self._batches.popleft()

    def clear(self) -> None:
        """Let go of all of them."""
        self._batches.clear()
        self._count = 0
