"""Counters of deliveries of a queue, a group or a virtual host since its process began."""

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
        whole: Counters that include these: they count everything that these count.
    """

    __slots__ = (
        "ack",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_empty",
        "get_no_ack",
        "redelivered",
        "whole",
    )

    def __init__(self, whole: DeliveryCounters | None = None) -> None:
        self.deliver = self.deliver_no_ack = self.get = self.get_no_ack = 0
        self.redelivered = self.ack = self.get_empty = 0
        self.whole = whole

    @property
    def delivered(self) -> int:
        """Messages delivered to consumers, or taken with basic.get, counted each time."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack

    @property
    def acked(self) -> int:
        """Messages settled by an acknowledgement, or delivered without the need for one."""
        return self.ack + self.deliver_no_ack + self.get_no_ack

    def note_delivered(self, count: int, *, redelivered: bool, no_ack: bool = False) -> None:
        """Count a run of deliveries, which all are or are not marked as redelivered."""
        counters: DeliveryCounters | None = self
        if redelivered or no_ack:
            while counters is not None:
                if no_ack:
                    counters.deliver_no_ack += count
                else:
                    counters.deliver += count
                if redelivered:
                    counters.redelivered += count
                counters = counters.whole
            return
        while counters is not None:
            counters.deliver += count
            counters = counters.whole

    def note_got(self, *, redelivered: bool, no_ack: bool) -> None:
        """Count a message taken with basic.get."""
        counters: DeliveryCounters | None = self
        while counters is not None:
            if no_ack:
                counters.get_no_ack += 1
            else:
                counters.get += 1
            if redelivered:
                counters.redelivered += 1
            counters = counters.whole

    def note_acked(self, count: int) -> None:
        """Count messages that a consumer has acknowledged."""
        counters: DeliveryCounters | None = self
        while counters is not None:
            counters.ack += count
            counters = counters.whole

    def note_empty(self) -> None:
        """Count a basic.get that found no message."""
        counters: DeliveryCounters | None = self
        while counters is not None:
            counters.get_empty += 1
            counters = counters.whole

    def add(self, other: DeliveryCounters) -> None:
        """Add what other counters have counted, which count nothing more."""
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.redelivered += other.redelivered
        self.ack += other.ack
        self.get_empty += other.get_empty
