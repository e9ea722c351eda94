"""Names of deleted queues and exchanges that cannot be used yet: their bindings are still there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator


class PendingDeletion(Protocol):
    """A deletion, as those see it who want one of its names: they take the steps that are left."""

    def steps(self) -> Iterator[None]:
        """Take all steps that are left; other clients may be served between two of them."""


@dataclass(slots=True)
class PendingDeletions:
    """The deletions of one virtual host that are not submitted to the disk as a whole yet.

    Attributes:
        queues: By the names of the queues that they remove.
        exchanges: By the names of the exchanges that they remove.
    """

    queues: dict[str, PendingDeletion] = field(default_factory=dict)
    exchanges: dict[str, PendingDeletion] = field(default_factory=dict)

    def that_unbinds(self, exchange: Exchange) -> PendingDeletion | None:
        """Return the deletion that takes the oldest binding of an exchange.

        None if that binding stays, so that the exchange is in use, or if there is no binding. When
        this has returned None, no deletion can leave the exchange unused.
        """
        oldest = next(iter(exchange.bindings.values()), None)
        if oldest is None or not oldest.destination.is_deleted:
            return None
        end = oldest.destination
        return (self.exchanges if isinstance(end, Exchange) else self.queues).get(end.name)
