"""Time for which publishers are throttled before a transient queue spills its ring to the log.

A ring fills up when its publisher is faster than its consumer. Writing the messages to the log and
reading them back would make the consumer even slower. So the broker first stops reading from the
publishers, and TCP slows them down, as long as the consumers settle at a good pace.

The delay is a budget of time. Throttling spends it; settled messages refill it. Consumers that
settle `PACE_MESSAGES` or `PACE_BYTES` a second pay for all the time that passes. So publishers wait
at most `BUDGET_SECONDS` for consumers that settle nothing. For slow consumers the queue spills
instead: it never slows publishers down to their pace. The budget is full again once the consumers
have caught up, including with the spilled messages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.base.limits import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.turn import TaskQueue, TurnTask
    from offsets.settlement import Settlement
    from ring import Ring

THROTTLE_FILL: Final = 0.8
"""Fill of the ring, in slots or bytes, at which its publishers are throttled; not above
`SPILL_FILL`."""
RESUME_FILL: Final = 0.6
"""Fill of the ring at which the server reads its publishers again."""
BUDGET_SECONDS: Final = 0.05
"""Longest time that publishers are throttled for consumers that settle nothing, in seconds."""
PACE_MESSAGES: Final = 128 * KIB
"""Messages a second that the consumers of all throttled queues together must settle, or"""
PACE_BYTES: Final = 32 * MIB
"""bytes of messages a second that they must settle."""


class SpillDelayOwner(Protocol):
    """Queue that knows its consumers."""

    @property
    def is_being_read(self) -> bool:
        """Whether there is a consumer whose own client is not throttled."""

    def wake(self, task_queue: TaskQueue | None = None) -> None:
        """Take a turn: the store may have progressed, or may throttle no longer.

        Args:
            task_queue: Task queue to wait in; None: that of the task that runs now.
        """


class ThrottledQueues:
    """Counts the throttled queues of a server; they share the pace of one event loop.

    Args:
        mark_after: `Turn.mark_after_real`.
        clock: Monotonic clock, in seconds.

    Attributes:
        count: Number of throttled queues.
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
    """Whether the publishers of one transient queue are throttled. The event loop owns it.

    Args:
        ring: Ring of the queue.
        settlement: Settlement of the queue; read, never changed.
        owner: Queue that checks again when it is woken.
        throttled_queues: Counter of the whole server.

    Attributes:
        is_throttling: Whether the server should not read the publishers now.
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

    def update(self, spilled_end: int, fill: float) -> None:
        """Start or stop throttling according to the fill of the ring. Called once a turn.

        The caller looks at `is_throttling` before and after each method.

        Args:
            spilled_end: Offset below which every unsettled message was spilled.
            fill: Fill of the ring now.
        """
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
        """Resume the publishers if there is enough room now."""
        if self.is_throttling and self._ring.fill <= RESUME_FILL:
            self._resume()

    def end(self) -> None:
        """Stop throttling: the queue is deleted, its log failed, or its memory is needed."""
        if self.is_throttling:
            self._is_used_up = True
            self._resume()

    def set_owner(self, owner: SpillDelayOwner) -> None:
        """Notify another owner from now on."""
        self._owner = owner

    def run_turn(self) -> None:
        """Make the queue check again, in case no other event makes it do so."""
        self._is_watched = False
        if self.is_throttling:
            self._owner.wake()

    def _may_throttle(self, spilled_end: int) -> bool:
        return (
            self._have_caught_up(spilled_end)
            and not self._ring.is_pool_over
            and self._owner.is_being_read
        )

    def _have_caught_up(self, spilled_end: int) -> bool:
        # A publisher never waits for consumers that still read from the log, however fast.
        return self._settlement.ack_floor >= spilled_end

    def _throttle(self) -> None:
        self.is_throttling = True
        self._throttled_queues.count += 1
        # The time without throttling costs nothing, and what was settled in it counts.
        self._seen_seconds = self._throttled_queues.clock()
        self._pay()
        self._watch()

    def _resume(self) -> None:
        self._pay()
        self.is_throttling = False
        self._throttled_queues.count -= 1

    def _pay(self) -> float:
        """Subtract the time since the last call, add what was settled; return the budget."""
        now_seconds = self._throttled_queues.clock()
        settled = self._settlement.settled_count
        message_bytes = self._ring.held_bytes / max(len(self._ring), 1)
        message_seconds = max(1 / PACE_MESSAGES, message_bytes / PACE_BYTES)
        earned = (settled - self._seen_settled) * message_seconds * self._throttled_queues.count
        spent = now_seconds - self._seen_seconds
        self._budget_seconds = min(self._budget_seconds + earned - spent, BUDGET_SECONDS)
        self._seen_seconds = now_seconds
        self._seen_settled = settled
        return self._budget_seconds

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._throttled_queues.mark_after(BUDGET_SECONDS, self)
