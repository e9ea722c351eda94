"""Names of deleted queues and exchanges that cannot be used yet: their bindings are still there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.deletion import Deletion


@dataclass(slots=True)
class PendingDeletions:
    """The deletions of one virtual host that are not submitted to the disk as a whole yet.

    Attributes:
        queues: By the names of the queues that they remove.
        exchanges: By the names of the exchanges that they remove.
    """

    queues: dict[str, Deletion] = field(default_factory=dict)
    exchanges: dict[str, Deletion] = field(default_factory=dict)

    def any(self) -> Deletion | None:
        """Return one of the deletions, or None."""
        return next(iter((self.queues or self.exchanges).values()), None)
