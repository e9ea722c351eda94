"""Decides when a transient queue spills its full ring to the log, oldest messages first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.storing.spill_delay import SpillDelay

if TYPE_CHECKING:
    from amqp_server.broker.storing.spill_delay import SpillDelayOwner, ThrottledQueues
    from offsets.settlement import Settlement
    from ring import Ring

SPILL_FILL: Final = 0.8
"""Fill of a transient queue's ring, in slots or bytes, at which the queue starts to spill."""
SPILL_SHARE: Final = 0.25
"""Share of the slots that one spill writes."""


class Spilling:
    """Decides when one store spills its ring to the log. The event loop owns it.

    Args:
        ring: Ring of the store.
        settlement: Settlement of the queue; read, never changed.
        owner: Queue that the store belongs to.
        throttled_queues: Queues of the server whose publishers are throttled.

    Attributes:
        spill_delay: Time that consumers get to make room before the store spills.
    """

    __slots__ = ("_ring", "_settlement", "spill_delay")

    def __init__(
        self,
        ring: Ring,
        settlement: Settlement,
        owner: SpillDelayOwner,
        throttled_queues: ThrottledQueues,
    ) -> None:
        self.spill_delay = SpillDelay(ring, settlement, owner, throttled_queues)
        self._ring = ring
        self._settlement = settlement

    @property
    def is_delayed(self) -> bool:
        """Whether the store throttles the publishers instead of spilling."""
        return self.spill_delay.is_throttling

    def is_due(self, spilled_end: int, *, is_stalled: bool) -> bool:
        """Return whether the store should spill now. Called once a turn.

        Args:
            spilled_end: Offset below which every unsettled message was spilled.
            is_stalled: Whether messages wait for room.
        """
        fill = self._ring.fill
        self.spill_delay.update(spilled_end, fill)
        return not self.spill_delay.is_throttling and (is_stalled or fill >= SPILL_FILL)

    def oldest(self, start: int) -> tuple[list[tuple[int, int]], int]:
        """Return the ranges to write from `start` on, and the offset where they end."""
        end = min(self._ring.cursor, start + int(self._ring.capacity * SPILL_SHARE))
        return self._settlement.unsettled_ranges(start, end), end
