"""Applies a queue's expiry and length limits to its ready messages.

A plain queue has no rules. It gets some with its first message that can expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.queue_part import QueuePort
from amqp_server.broker.rules.deadlines import DUE_RUNS_MAX
from amqp_server.broker.transfers.deaths import EXPIRED, MAXLEN

if TYPE_CHECKING:
    from amqp_server.base.clock import Timer
    from amqp_server.broker.rules.length_limit import LengthLimit
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from amqp_server.broker.transfers.forwarder import Forwarder
    from amqp_server.broker.turn import Turn

TIMER_SECONDS_MAX = 3600.0
"""Longest time between two checks of a queue's deadlines."""


class RuledQueue(QueuePort, Protocol):
    """A queue whose messages expire, or whose length is limited."""

    @property
    def refuses_when_full(self) -> bool:
        """Whether a full queue refuses new messages instead of dropping old ones."""

    @property
    def forwarder(self) -> Forwarder | None:
        """Forwards dead letters; None without a dead-letter exchange."""


class QueueRules:
    """Expiry and length limits of one queue. Runs in the queue's turns.

    Args:
        queue: Queue that the rules apply to.
        attributes: Attributes of its messages.
        limit: Length limits of the queue, or None.
        turn: Turn that runs the timer of the next deadline.

    Attributes:
        attributes: Attributes of its messages.
        has_unknown_sizes: Whether the sizes of some messages are not known yet, so that a limit in
            octets is not applied.
        is_behind: Whether more messages have to go, expired or above a limit, than one turn drops.
    """

    def __init__(
        self,
        queue: RuledQueue,
        attributes: MessageAttributes,
        limit: LengthLimit | None,
        turn: Turn,
    ) -> None:
        self.attributes = attributes
        self.has_unknown_sizes = False
        self.is_behind = False
        self._queue = queue
        self._limit = limit
        self._turn = turn
        self._now_ms = turn.clock.monotonic_ms
        # Recovered messages need not be offered to consumers before they expire.
        self._offered_end = queue.ready.end
        self._timer: Timer | None = None
        self._timer_ms = 0

    @property
    def is_needed(self) -> bool:
        """Whether the queue still has a rule, or a message that expires."""
        attributes = self.attributes
        return self._limit is not None or attributes.is_needed or bool(attributes.deadlines)

    def change_limit(self, limit: LengthLimit | None) -> None:
        """Change the length limits; the next turn drops what exceeds them."""
        self._limit = limit

    def record(self, start: int, messages: list[bytes], flags: int) -> None:
        """Record messages that the queue is about to append at the offset `start`."""
        self.attributes.record(start, messages, flags, self._now_ms())

    def before_delivery(self) -> bool:
        """Expire due messages, but not newly published ones: consumers are offered these first.

        So a message with a lifetime of 0 goes to a consumer that can take it at once, or expires.

        Returns:
            Whether more may be due, for the next turn; nothing should be delivered before.
        """
        return self._expire(self._offered_end, self._now_ms())

    def after_delivery(self) -> bool:
        """Expire due messages that no consumer took, and drop those above the length limits.

        Returns:
            Whether more may be due, for the next turn.
        """
        looked_ms = self._now_ms()
        self._expire(self._queue.ready.end, looked_ms)
        self._offered_end = self._queue.ready.end
        self._keep_length()
        is_more = self.is_behind
        self._prune()
        self.attributes.forget(self._queue.settlement.ack_floor)
        self._arm_timer(looked_ms)
        return is_more

    def on_requeued(self, start: int, end: int) -> None:
        """Make requeued messages expire at their old deadline, or now."""
        self.attributes.deadlines.rearm(start, end)

    def has_room_for(self, count: int, body_octets: int) -> bool:
        """Return whether the limits allow `count` more ready messages with bodies of that size."""
        return self._limit is None or self._limit.has_room_for(count, body_octets)

    def stop(self) -> None:
        """Cancel the timer, because the queue is deleted."""
        if self._timer is not None:
            self._timer.cancel()

    def run_turn(self) -> None:
        """Make the queue check its deadlines: the next one has come, or almost."""
        # The loop's clock is not that of the deadlines, so the timer may come a moment early.
        self._timer = None
        self._queue.wake()

    def _expire(self, end: int, looked_ms: int) -> bool:
        """Expire due messages below `end` until the slice is over; return whether to continue."""
        deadlines = self.attributes.deadlines
        self.is_behind = False
        while deadlines and self._expire_some(end, looked_ms):
            if self._turn.time_slice.is_over:
                self.is_behind = True
                return True
        return False

    def _expire_some(self, end: int, looked_ms: int) -> bool:
        """Expire due messages below `end`, about 1 ms of work; return whether there may be more."""
        queue, deadlines = self._queue, self.attributes.deadlines
        if queue.forwarder is None:
            # No client sees in which order they go, and neighbours go together.
            due = deadlines.take_due_below(end, looked_ms)
            is_more = bool(due) and deadlines.is_next_due_below(end, looked_ms)
        else:
            due = deadlines.take_due(looked_ms)
            # Do not continue for messages that are not offered yet: they would be checked for ever.
            is_more = len(due) >= DUE_RUNS_MAX and due[0][0] < end
        for start, stop in due:
            if stop > end:
                # Consumers were not offered these yet.
                deadlines.rearm(max(start, end), stop)
            if start < end:
                for taken in queue.ready.take_range(start, min(stop, end)):
                    queue.drop(taken.start, taken.end, EXPIRED)
        return is_more

    def _prune(self) -> None:
        """Remove the deadlines of settled messages until the slice is over."""
        while self.attributes.deadlines.prune(self._queue.settlement):
            if self._turn.time_slice.is_over:
                self._queue.wake()
                return

    def _keep_length(self) -> None:
        """Drop the oldest messages; a queue that refuses keeps what it accepted, even requeued.

        Many may have to go at once, each by itself, after a requeue. The next turn drops the rest.
        """
        if self._limit is None or self._queue.refuses_when_full:
            return
        while count := self._limit.excess():
            taken = self._queue.ready.take(count)
            self._queue.drop(taken.start, taken.end, MAXLEN)
            if self._turn.time_slice.is_over:
                self.is_behind = self.is_behind or self._limit.excess() > 0
                return

    def _arm_timer(self, looked_ms: int) -> None:
        """Schedule a check at the next deadline.

        Args:
            looked_ms: Time of the last check. A later time would be wrong: messages that became
                due since then would have no timer.
        """
        next_ms = self.attributes.deadlines.next_ms
        # A deadline before that time waits for another event, not for a timer.
        if next_ms is None or next_ms <= looked_ms:
            return
        next_ms = min(next_ms, looked_ms + int(TIMER_SECONDS_MAX * 1000))
        if self._timer is not None:
            if self._timer_ms <= next_ms:
                return
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._turn.mark_after((next_ms - looked_ms) / 1000, self)
