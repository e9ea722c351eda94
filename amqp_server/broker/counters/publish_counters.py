"""Counters of publishes: of a channel to an exchange, or of all that one of them has."""

from __future__ import annotations


class PublishCounters:
    """Counters of messages that clients have published. They begin at 0.

    Attributes:
        publish: Messages published.
        routed: Messages that queues got: one that goes to two queues counts twice.
        return_unroutable: Mandatory messages that were returned, because no queue took them.
        drop_unroutable: Other messages that no queue took.
        awaiting_confirm: Messages published on channels with confirms.
        confirm: Messages that were confirmed; refused ones do not count.
    """

    __slots__ = (
        "awaiting_confirm",
        "confirm",
        "drop_unroutable",
        "publish",
        "return_unroutable",
        "routed",
    )

    def __init__(self) -> None:
        self.publish = self.routed = self.return_unroutable = self.drop_unroutable = 0
        self.awaiting_confirm = self.confirm = 0

    @property
    def sum(self) -> int:
        """Sum of all counters, which grows with each of them."""
        return (
            self.publish
            + self.routed
            + self.return_unroutable
            + self.drop_unroutable
            + self.awaiting_confirm
            + self.confirm
        )

    def add(self, other: PublishCounters) -> None:
        """Add what other counters have counted."""
        self.publish += other.publish
        self.routed += other.routed
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.awaiting_confirm += other.awaiting_confirm
        self.confirm += other.confirm

    def since(self, before: PublishCounters) -> PublishCounters:
        """Return what these counters have counted since they were as `before`."""
        new = PublishCounters()
        new.publish = self.publish - before.publish
        new.routed = self.routed - before.routed
        new.return_unroutable = self.return_unroutable - before.return_unroutable
        new.drop_unroutable = self.drop_unroutable - before.drop_unroutable
        new.awaiting_confirm = self.awaiting_confirm - before.awaiting_confirm
        new.confirm = self.confirm - before.confirm
        return new
