"""What one queue has delivered to one channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.counters.delivery_counters import DeliveryCounters

if TYPE_CHECKING:
    from amqp_server.broker.counters.channel_counters import ChannelCounters
    from amqp_server.broker.counters.owners import CountedQueue


class DeliveryPair(DeliveryCounters):
    """Counters of the deliveries of one queue to one channel, and of their acks.

    Each delivery counts here and nowhere else; `fold` adds it to the sums.

    Args:
        channel: Counters of the channel.
        queue: The queue; None: of all queues that the channel browses, which do not count it.

    Attributes:
        channel: As given.
        queue: As given.
        number: See `CountedPair`, like the three that follow.
    """

    __slots__ = ("_folded", "changed_in", "channel", "known_in", "number", "queue", "reported_sum")

    def __init__(self, channel: ChannelCounters, queue: CountedQueue | None) -> None:
        super().__init__()
        self.channel = channel
        self.queue = queue
        self.number = self.known_in = self.changed_in = self.reported_sum = 0
        self._folded: DeliveryCounters | None = None

    @property
    def is_unused(self) -> bool:
        """Whether the queue was deleted."""
        return self.queue is not None and self.queue.is_deleted

    def fold(self) -> None:
        """Add what is new to the sums of the channel, the queue and the virtual host."""
        folded = self._folded
        if folded is None:
            folded = self._folded = DeliveryCounters()
        if self.sum == folded.sum:
            return
        new = self.since(folded)
        folded.add(new)
        self.channel.deliveries.add(new)
        if self.queue is not None:
            self.queue.counters.add(new)
            vhost = self.channel.virtual_host.counters
            vhost.deliveries[self.queue.settings.type].add(new)
            if not self.queue.is_deleted:
                self.queue.mark_changed()
