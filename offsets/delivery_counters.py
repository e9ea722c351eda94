"""Counters of deliveries of a queue, a group or a consumer since its process began."""

from __future__ import annotations


class DeliveryCounters:
    """Counters of deliveries and of their acks. They begin at 0 with the process.

    Attributes:
        delivered: Messages delivered to consumers, or taken with basic.get, counted each time.
        redelivered: Deliveries that were marked as redelivered.
        acked: Messages settled because a consumer acknowledged them, or took them without an
            obligation to acknowledge.
    """

    __slots__ = ("_whole", "acked", "delivered", "redelivered")

    def __init__(self, whole: DeliveryCounters | None = None) -> None:
        """Begin at 0.

        Args:
            whole: Counters that include these: they count everything that these count.
        """
        self.delivered = self.redelivered = self.acked = 0
        self._whole = whole

    def note_delivered(self, count: int, *, redelivered: bool) -> None:
        """Count a run of deliveries, which all are or are not marked as redelivered."""
        self.delivered += count
        if redelivered:
            self.redelivered += count
        if self._whole is not None:
            self._whole.note_delivered(count, redelivered=redelivered)

    def note_acked(self, count: int) -> None:
        """Count messages that a consumer has acknowledged."""
        self.acked += count
        if self._whole is not None:
            self._whole.note_acked(count)
