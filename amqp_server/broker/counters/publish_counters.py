"""Counters of publishes: of a channel, an exchange or a virtual host, since it began."""

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

    def add(self, other: PublishCounters) -> None:
        """Add what other counters have counted, which count nothing more."""
        self.publish += other.publish
        self.routed += other.routed
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.awaiting_confirm += other.awaiting_confirm
        self.confirm += other.confirm
