"""How many connections, channels and queues came and went."""

from __future__ import annotations


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
        return {name: getattr(self, name) for name in self.__slots__}
