"""How long publishers wait before a transient queue spills its ring to the log.

A ring fills up when its publisher is faster than its consumer. Writing its messages to the log and
reading them back costs the consumer more time than it is behind. So the broker first stops reading
from the publishers, and TCP slows them down, as long as the consumers settle at a good pace.

The delay is a budget of time. Throttling spends it; settled messages refill it: consumers that
settle `PACE_MESSAGES` or `PACE_BYTES` a second pay for all the time that passes. So publishers wait
at most `BUDGET_SECONDS` for consumers that do nothing, and are never slowed down to the pace of a
slow one: the queue spills instead. The budget is whole again once the consumers have caught up,
including with the spilled messages.
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

THROTTLE_FILL: Final = 0.8
"""Fill of the ring, in slots or bytes, from which its publishers are held; not above that at
which it is spilled."""
RESUME_FILL: Final = 0.6
"""Fill of the ring at which they are read again."""
BUDGET_SECONDS: Final = 0.05
"""Longest that publishers are held for consumers that settle nothing."""
PACE_MESSAGES: Final = 128 * KIB
"""Messages that consumers must settle in a second, of all held queues together; or else"""
PACE_BYTES: Final = 32 * MIB
"""these bytes of messages."""


class SpillDelayOwner(Protocol):
    """Who knows the consumers: the queue."""

    @property
    def is_being_read(self) -> bool:
        """Whether there are consumers whose own clients are not held."""

    def store_moved(self) -> None:
        """Publishers may be read again, or it should look whether they may."""


class ThrottledQueues:
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
        self.count = 0
        self.mark_after = mark_after
        self.clock = clock


class SpillDelay:
    """Whether the publishers of one transient queue are held. The event loop owns it.

    Args:
        ring: The queue's ring.
        settlement: What of the queue is settled; read, never changed.
        owner: The queue.
        throttled_queues: Those of the whole server.

    Attributes:
        is_throttling: Whether the publishers should not be read now.
    """

    __slots__ = (
        "_budget_seconds",
        "_is_used_up",
        "_is_watched",
        "_owner",
        "_ring",
        "_seen_seconds",
        "_seen_settled",
        "_settlement",
        "_throttled_queues",
        "is_throttling",
    )

    def __init__(
        self,
        ring: Ring,
        settlement: Settlement,
        owner: SpillDelayOwner,
        throttled_queues: ThrottledQueues,
    ) -> None:
        self.is_throttling = False
        self._ring = ring
        self._settlement = settlement
        self._owner = owner
        self._throttled_queues = throttled_queues
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
        if self.is_throttling:
            if fill <= RESUME_FILL:
                self._resume()
            elif not self._may_throttle(spilled_end) or self._pay() <= 0:
                self._is_used_up = True
                self._resume()
            else:
                self._watch()
        elif fill >= THROTTLE_FILL:
            if not self._is_used_up and self._may_throttle(spilled_end):
                self._throttle()
        elif self._is_used_up and fill <= RESUME_FILL and self._have_caught_up(spilled_end):
            self._is_used_up = False
            self._budget_seconds = BUDGET_SECONDS

    def settled(self) -> None:
        """Let the publishers be read again, if there is enough room now."""
        if self.is_throttling and self._ring.fill <= RESUME_FILL:
            self._resume()

    def end(self) -> None:
        """Hold nobody any more: the queue is deleted, its log failed, or its memory is needed."""
        if self.is_throttling:
            self._is_used_up = True
            self._resume()

    def run_turn(self) -> None:
        """Have the queue look again: nothing may have happened that would make it."""
        self._is_watched = False
        if self.is_throttling:
            self._owner.store_moved()

    def _may_throttle(self, spilled_end: int) -> bool:
        return (
            self._have_caught_up(spilled_end)
            and not self._ring.is_pool_over
            and self._owner.is_being_read
        )

    def _have_caught_up(self, spilled_end: int) -> bool:
        # However fast they are: a publisher does not wait for a backlog in the log.
        return self._settlement.ack_floor >= spilled_end

    def _throttle(self) -> None:
        self.is_throttling = True
        self._throttled_queues.count += 1
        # Time in which nobody was held costs nothing, and what was settled in it counts.
        self._seen_seconds = self._throttled_queues.clock()
        self._pay()
        self._watch()

    def _resume(self) -> None:
        self._pay()
        self.is_throttling = False
        self._throttled_queues.count -= 1
        self._owner.store_moved()

    def _pay(self) -> float:
        """Take the time since the last look from the budget, add what was settled; return it."""
        now_seconds, settled = self._throttled_queues.clock(), self._settlement.settled_count
        message_bytes = self._ring.held_bytes / max(len(self._ring), 1)
        message_seconds = max(1 / PACE_MESSAGES, message_bytes / PACE_BYTES)
        earned = (settled - self._seen_settled) * message_seconds * self._throttled_queues.count
        spent = now_seconds - self._seen_seconds
        self._budget_seconds = min(self._budget_seconds + earned - spent, BUDGET_SECONDS)
        self._seen_seconds, self._seen_settled = now_seconds, settled
        return self._budget_seconds

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._throttled_queues.mark_after(BUDGET_SECONDS, self)
