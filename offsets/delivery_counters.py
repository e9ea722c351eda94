"""What went through a queue, a group or a consumer since its process began: counts, per run."""

from __future__ import annotations


class DeliveryCounters:
    """Counts of deliveries and of acks to them. They begin with the process, at 0.

    Attributes:
        delivered: Messages given to consumers, or taken one by one, each time anew.
        redelivered: Those of them that were marked as given before.
        acked: Messages that were done with because a consumer acknowledged them, or took them
            without having to.
    """

    __slots__ = ("_whole", "acked", "delivered", "redelivered")

    def __init__(self, whole: DeliveryCounters | None = None) -> None:
        """Begin at 0.

        Args:
            whole: What this is a part of: it counts all that this one counts.
        """
        self.delivered = self.redelivered = self.acked = 0
        self._whole = whole

    def note_delivered(self, count: int, *, redelivered: bool) -> None:
        """Count a run of deliveries, which are marked redelivered or are not."""
        self.delivered += count
        if redelivered:
            self.redelivered += count
        if self._whole is not None:
            self._whole.note_delivered(count, redelivered=redelivered)

    def note_acked(self, count: int) -> None:
        """Count messages that a consumer is done with."""
        self.acked += count
        if self._whole is not None:
            self._whole.note_acked(count)
