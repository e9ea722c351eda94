"""Counters of the whole broker: logins, objects that came and went, sizes of published messages."""

from __future__ import annotations

from typing import Final

from amqp_server.protocol.body_sizes import count_bodies

AMQP: Final = "amqp091"
HTTP: Final = "http"
"""Protocols by which logins are counted."""

BOUNDS_BYTES: Final[tuple[int, ...]] = (
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


class AuthAttempts:
    """Counters of logins since the process began."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def count(self, protocol: str, *, accepted: bool) -> None:
        """Count a login that was accepted or refused; `protocol` is one of the constants."""
        self._counts.setdefault(protocol, [0, 0])[accepted] += 1

    def of(self, protocol: str) -> dict[str, int]:
        """Return the counters of a protocol, by the names of RabbitMQ."""
        failed, succeeded = self._counts.get(protocol, (0, 0))
        return {
            "auth_attempts": failed + succeeded,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": succeeded,
        }


class Churn:
    """Counters of objects that came and went since the process began.

    Attributes:
        connection_created: Connections that have opened a virtual host.
        connection_closed: Those of them that have ended.
        channel_created: Channels that were opened.
        channel_closed: Those of them that have ended.
        queue_declared: Declares of queues that succeeded, of new and of existing ones.
        queue_created: Queues that were created.
        queue_deleted: Queues that were deleted.
    """

    __slots__ = (
        "channel_closed",
        "channel_created",
        "connection_closed",
        "connection_created",
        "queue_created",
        "queue_declared",
        "queue_deleted",
    )

    def __init__(self) -> None:
        self.connection_created = self.connection_closed = 0
        self.channel_created = self.channel_closed = 0
        self.queue_declared = self.queue_created = self.queue_deleted = 0

    def as_json(self) -> dict[str, int]:
        """Return the counters by name."""
        return {
            "channel_closed": self.channel_closed,
            "channel_created": self.channel_created,
            "connection_closed": self.connection_closed,
            "connection_created": self.connection_created,
            "queue_created": self.queue_created,
            "queue_declared": self.queue_declared,
            "queue_deleted": self.queue_deleted,
        }


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
