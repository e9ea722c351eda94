"""What one queue has got of what clients have published to one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.counters.owners import CountedExchange
    from amqp_server.broker.counters.vhost_counters import VhostCounters


class IncomingPair:
    """Counts the messages that clients have published to an exchange, and that a queue got.

    The exchange is the one that the client has named, also if others lie between it and the queue.
    A copy counts here and nowhere else; `fold` adds it to the sums.

    Args:
        exchange: The exchange; None: what no client has published, which does not count.

    Attributes:
        exchange: As given.
        count: Messages so far; those that the queue has refused are among them.
        number: See `CountedPair`, like the three that follow.
    """

    __slots__ = ("_folded", "changed_in", "count", "exchange", "known_in", "number", "reported_sum")

    def __init__(self, exchange: CountedExchange | None) -> None:
        self.exchange = exchange
        self.count = self._folded = 0
        self.number = self.known_in = self.changed_in = self.reported_sum = 0

    @property
    def sum(self) -> int:
        """Messages so far."""
        return self.count

    @property
    def is_unused(self) -> bool:
        """Whether the exchange was deleted; its queue forgets it when it changes next."""
        return self.exchange is not None and self.exchange.is_deleted

    def fold(self, vhost: VhostCounters) -> None:
        """Add what is new to the sums of the exchange and the virtual host."""
        new = self.count - self._folded
        if new and self.exchange is not None:
            self._folded = self.count
            self.exchange.counters.routed += new
            vhost.publishes.routed += new
