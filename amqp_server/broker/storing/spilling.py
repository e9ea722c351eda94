"""When a transient queue writes to its log, and what: the oldest that is not settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.storing.spill_delay import SpillDelay

if TYPE_CHECKING:
    from amqp_server.broker.storing.spill_delay import SpillDelayOwner, ThrottledQueues
    from offsets.settlement import Settlement
    from ring import Ring

SPILL_FILL: Final = 0.8
"""Fill of a transient queue's ring, in slots or bytes, at which its journal stage wakes."""
SPILL_SHARE: Final = 0.25
"""Share of the slots that is spilled at a time."""


class Spilling:
    """What one store does about a ring that is full. The event loop owns it.

    Args:
        ring: The store's ring.
        settlement: What of the queue is settled; read, never changed.
        owner: The queue.
        throttled_queues: Those of all stores whose publishers are held.

    Attributes:
        spill_delay: What the consumers are given to make room before anything is written.
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
    def is_put_off(self) -> bool:
        """Whether the publishers are held instead."""
        return self.spill_delay.is_throttling

    def is_due(self, spilled_end: int, *, is_stalled: bool) -> bool:
        """Return whether something should be written now. Called once a turn.

        Args:
            spilled_end: All below it that is not settled was spilled (exclusive).
            is_stalled: Whether messages wait for room.
        """
        self.spill_delay.look(spilled_end)
        return not self.is_put_off and (is_stalled or self._ring.fill >= SPILL_FILL)

    def oldest(self, start: int) -> tuple[list[tuple[int, int]], int]:
        """Return what should be written from `start` on, in ranges, and where that ends."""
        end = min(self._ring.cursor, start + int(self._ring.capacity * SPILL_SHARE))
        return self._settlement.unsettled_ranges(start, end), end
