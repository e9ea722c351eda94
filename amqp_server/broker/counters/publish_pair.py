"""What one channel has published to one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.counters.publish_counters import PublishCounters

if TYPE_CHECKING:
    from amqp_server.broker.counters.channel_counters import ChannelCounters
    from amqp_server.broker.counters.owners import CountedExchange


class PublishPair(PublishCounters):
    """Counters of the publishes of one channel to one exchange.

    Each publish counts here and nowhere else; `fold` adds it to the sums. What is derived stays 0
    here: `routed`, and `awaiting_confirm`.

    Args:
        channel: Counters of the channel.
        exchange: The exchange.

    Attributes:
        channel: As given.
        exchange: As given; None: the channel has forgotten it, and what is counted later has to be
            folded.
        number: See `CountedPair`, like the three that follow.
    """

    __slots__ = (
        "_folded",
        "changed_in",
        "channel",
        "exchange",
        "known_in",
        "number",
        "reported_sum",
    )

    def __init__(self, channel: ChannelCounters, exchange: CountedExchange) -> None:
        super().__init__()
        self.channel = channel
        self.exchange: CountedExchange | None = exchange
        self.number = self.known_in = self.changed_in = self.reported_sum = 0
        self._folded: PublishCounters | None = None

    @property
    def is_unused(self) -> bool:
        """Whether the exchange was deleted."""
        return self.exchange is not None and self.exchange.is_deleted

    def count_confirmed(self, count: int) -> None:
        """Count publishes that were confirmed."""
        self.confirm += count
        if self.exchange is None:
            self.fold()

    def fold(self) -> None:
        """Add what is new to the sums of the channel, the exchange and the virtual host."""
        folded = self._folded
        if folded is None:
            folded = self._folded = PublishCounters()
        if self.sum == folded.sum:
            return
        new = self.since(folded)
        folded.add(new)
        if self.channel.has_confirms:
            new.awaiting_confirm = new.publish
        self.channel.publishes.add(new)
        self.channel.virtual_host.counters.publishes.add(new)
        if self.exchange is not None:
            self.exchange.counters.add(new)
