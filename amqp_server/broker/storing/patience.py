"""Patience before spilling: publishers wait a moment for consumers who read as fast as they can.

A ring that fills up because its publisher is faster than its consumer would be written to the
log and read back from it, which costs the consumer more time than it is behind. So while the
consumers settle at a good pace, the publishers are not read instead, and TCP slows them down.

Patience is a budget of time. It is spent while publishers are held, and refilled by what is
settled meanwhile: who settles `PACE_MESSAGES` or `PACE_BYTES` a second pays for all the time that
it takes. So a publisher is held `BUDGET_SECONDS` at most for consumers that do nothing, and is
never slowed down to the pace of a slow one: then the ring is spilled. What is used up comes back
when the consumers have caught up, with what was spilled too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.limits import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.turn import TurnTask
    from offsets.settlement import Settlement
    from ring import Ring

HOLD_FILL: Final = 0.8
"""Fill of the ring, in slots or bytes, from which its publishers are held; not above that at
which it is spilled."""
EASE_FILL: Final = 0.6
"""Fill of the ring at which they are read again."""
BUDGET_SECONDS: Final = 0.05
"""Longest that publishers are held for consumers that settle nothing."""
PACE_MESSAGES: Final = 128 * KIB
"""Messages that consumers must settle in a second, of all held queues together; or else"""
PACE_BYTES: Final = 32 * MIB
"""these bytes of messages."""


class PatienceOwner(Protocol):
    """Who knows the consumers: the queue."""

    @property
    def is_being_read(self) -> bool:
        """Whether there are consumers whose own clients are not held."""

    def store_moved(self) -> None:
        """Publishers may be read again, or it should look whether they may."""


class HeldQueues:
    """The queues of a server whose publishers are held: they share the pace of one loop.

    Args:
        mark_after: `Turn.mark_after`.
        clock: Returns seconds that never go back.

    Attributes:
        count: How many there are.
    """

    __slots__ = ("clock", "count", "mark_after")

    def __init__(
        self,
        mark_after: Callable[[float, TurnTask], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with none."""
        self.count = 0
        self.mark_after = mark_after
        self.clock = clock


class Patience:
    """Whether the publishers of one transient queue are held. The event loop owns it.

    Args:
        ring: The queue's ring.
        settlement: What of the queue is settled; read, never changed.
        owner: The queue.
        held_queues: Those of the whole server.

    Attributes:
        is_holding: Whether the publishers should not be read now.
    """

    __slots__ = (
        "_budget_seconds",
        "_held_queues",
        "_is_used_up",
        "_is_watched",
        "_owner",
        "_ring",
        "_seen_seconds",
        "_seen_settled",
        "_settlement",
        "is_holding",
    )

    def __init__(
        self,
        ring: Ring,
        settlement: Settlement,
        owner: PatienceOwner,
        held_queues: HeldQueues,
    ) -> None:
        """Begin with the whole budget and nobody held."""
        self.is_holding = False
        self._ring = ring
        self._settlement = settlement
        self._owner = owner
        self._held_queues = held_queues
        self._budget_seconds = BUDGET_SECONDS
        self._is_used_up = False
        self._is_watched = False
        self._seen_seconds = 0.0
        self._seen_settled = 0

    def look(self, spilled_end: int) -> None:
        """Begin or end to hold the publishers, as the ring is now. Called once a turn.

        Args:
            spilled_end: All below it that is not settled was spilled (exclusive).
        """
        fill = self._ring.fill
        if self.is_holding:
            if fill <= EASE_FILL:
                self._let_go()
            elif not self._may_hold(spilled_end) or self._pay() <= 0:
                self._is_used_up = True
                self._let_go()
            else:
                self._watch()
        elif fill >= HOLD_FILL:
            if not self._is_used_up and self._may_hold(spilled_end):
                self._hold()
        elif self._is_used_up and fill <= EASE_FILL and self._have_caught_up(spilled_end):
            self._is_used_up = False
            self._budget_seconds = BUDGET_SECONDS

    def settled(self) -> None:
        """Let the publishers be read again, if there is enough room now."""
        if self.is_holding and self._ring.fill <= EASE_FILL:
            self._let_go()

    def end(self) -> None:
        """Hold nobody any more: the queue is deleted, its log failed, or its memory is needed."""
        if self.is_holding:
            self._is_used_up = True
            self._let_go()

    def run_turn(self) -> None:
        """Have the queue look again: nothing may have happened that would make it."""
        self._is_watched = False
        if self.is_holding:
            self._owner.store_moved()

    def _may_hold(self, spilled_end: int) -> bool:
        return (
            self._have_caught_up(spilled_end)
            and not self._ring.is_pool_over
            and self._owner.is_being_read
        )

    def _have_caught_up(self, spilled_end: int) -> bool:
        # However fast they are: a publisher does not wait for a backlog in the log.
        return self._settlement.ack_floor >= spilled_end

    def _hold(self) -> None:
        self.is_holding = True
        self._held_queues.count += 1
        # Time in which nobody was held costs nothing, and what was settled in it counts.
        self._seen_seconds = self._held_queues.clock()
        self._pay()
        self._watch()

    def _let_go(self) -> None:
        self._pay()
        self.is_holding = False
        self._held_queues.count -= 1
        self._owner.store_moved()

    def _pay(self) -> float:
        """Take the time since the last look from the budget, add what was settled; return it."""
        now_seconds, settled = self._held_queues.clock(), self._settlement.settled_count
        message_bytes = self._ring.held_bytes / max(len(self._ring), 1)
        message_seconds = max(1 / PACE_MESSAGES, message_bytes / PACE_BYTES)
        earned = (settled - self._seen_settled) * message_seconds * self._held_queues.count
        spent = now_seconds - self._seen_seconds
        self._budget_seconds = min(self._budget_seconds + earned - spent, BUDGET_SECONDS)
        self._seen_seconds, self._seen_settled = now_seconds, settled
        return self._budget_seconds

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._held_queues.mark_after(BUDGET_SECONDS, self)
