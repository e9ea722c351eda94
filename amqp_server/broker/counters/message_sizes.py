"""A histogram of the sizes of published messages."""

from __future__ import annotations

from typing import Final

from amqp_server.protocol.body_sizes import count_bodies

BOUNDS_BYTES: Final = (
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
)
"""Upper bounds of the buckets, inclusive; larger bodies are in one more."""


class MessageSizes:
    """Bodies of published messages by size, since the process began.

    Attributes:
        counts: One counter for each of `BOUNDS_BYTES`, and one for larger bodies.
        total_bytes: Octets of all of them.
    """

    __slots__ = ("counts", "total_bytes")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_BYTES) + 1)
        self.total_bytes = 0

    def count(self, messages: list[bytes]) -> None:
        """Count published messages."""
        self.total_bytes += count_bodies(messages, self.counts)
