"""Counters of deliveries: of one queue to one channel, or of all that a channel or a queue has."""

from __future__ import annotations


class DeliveryCounters:
    """Counters of deliveries and of their acks. They begin at 0 with the process.

    Attributes:
        deliver: Messages delivered to consumers that acknowledge them, counted each time.
        deliver_no_ack: Messages delivered to consumers that do not.
        get: Messages taken with basic.get that are to be acknowledged.
        get_no_ack: Messages taken with basic.get without an acknowledgement.
        redelivered: Those of all these that were marked as redelivered.
        ack: Messages settled because a consumer acknowledged them.
        get_empty: Times that basic.get found no message.
    """

    __slots__ = (
        "ack",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_empty",
        "get_no_ack",
        "redelivered",
    )

    def __init__(self) -> None:
        self.deliver = self.deliver_no_ack = self.get = self.get_no_ack = 0
        self.redelivered = self.ack = self.get_empty = 0

    @property
    def delivered(self) -> int:
        """Messages delivered to consumers, or taken with basic.get, counted each time."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    @property
    def acked(self) -> int:
        """Messages settled by an acknowledgement, or delivered without the need for one."""
        return self.ack + self.deliver_no_ack + self.get_no_ack

    @property
    def sum(self) -> int:
        """Sum of all counters, which grows with each of them."""
        return self.delivered + self.redelivered + self.ack + self.get_empty

    def add(self, other: DeliveryCounters) -> None:
        """Add what other counters have counted."""
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.redelivered += other.redelivered
        self.ack += other.ack
        self.get_empty += other.get_empty

    def since(self, before: DeliveryCounters) -> DeliveryCounters:
        """Return what these counters have counted since they were as `before`."""
        new = DeliveryCounters()
        new.deliver = self.deliver - before.deliver
        new.deliver_no_ack = self.deliver_no_ack - before.deliver_no_ack
        new.get = self.get - before.get
        new.get_no_ack = self.get_no_ack - before.get_no_ack
        new.redelivered = self.redelivered - before.redelivered
        new.ack = self.ack - before.ack
        new.get_empty = self.get_empty - before.get_empty
        return new
