"""What a queue does to ready messages by itself: it lets them expire, and keeps its length.

A plain queue has no rules; it gets some with its first message that can expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.rules.deadlines import DUE_RUNS_MAX
from amqp_server.broker.rules.steady_clock import now_ms
from amqp_server.broker.transfers.deaths import EXPIRED, MAXLEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.rules.length_limit import LengthLimit
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from amqp_server.broker.turn import Timer, Turn

TIMER_SECONDS_MAX = 3600.0
"""A queue looks at its next deadline this often at least."""


class QueueRules:
    """Expiry and length of one queue. Runs in the queue's turns.

    Args:
        queue: The queue.
        attributes: Of its messages.
        limit: Its limits, or None.
        turn: For the next deadline.
    """

    def __init__(
        self, queue: Queue, attributes: MessageAttributes, limit: LengthLimit | None, turn: Turn
    ) -> None:
        self.attributes = attributes
        self._queue = queue
        self._limit = limit
        self._turn = turn
        # What was recovered has been on offer long enough.
        self._offered_end = queue.ready.end
        self._timer: Timer | None = None
        self._timer_ms = 0

    def note(self, start: int, messages: list[bytes], flags: int) -> None:
        """Note messages that are about to be taken in from the offset `start` on."""
        self.attributes.note(start, messages, flags, now_ms())

    def before_delivery(self) -> bool:
        """Let expire what is due. What was just published is offered to consumers first.

        So a message with a lifetime of 0 goes to whoever can take it at once, or expires.

        Returns:
            Whether there may be more, for the next turn; nothing should be delivered before.
        """
        return self._expire(self._offered_end, now_ms())

    def after_delivery(self) -> bool:
        """Let expire what nobody took, and drop what is too much.

        Returns:
            Whether there may be more to expire, for the next turn.
        """
        looked_ms = now_ms()
        is_more = self._expire(self._queue.ready.end, looked_ms)
        self._offered_end = self._queue.ready.end
        self._keep_length()
        self.attributes.deadlines.prune(self._queue.settlement)
        self.attributes.forget(self._queue.settlement.ack_floor)
        self._arm_timer(looked_ms)
        return is_more

    def came_back(self, start: int, end: int) -> None:
        """Let messages that were requeued expire at their old deadline, or now."""
        self.attributes.deadlines.rearm(start, end)

    def has_room_for(self, messages: Sequence[bytes]) -> bool:
        """Return whether that many more ready messages keep the limits."""
        return self._limit is None or self._limit.has_room_for(messages)

    def stop(self) -> None:
        """Forget the next deadline: the queue is deleted."""
        if self._timer is not None:
            self._timer.cancel()

    def run_turn(self) -> None:
        """Let the queue look at its deadlines: the next one has come, or nearly."""
        # The loop's clock is not that of the deadlines: it may be sooner by a moment.
        self._timer = None
        self._queue.wake()

    def _expire(self, end: int, looked_ms: int) -> bool:
        """Expire some of what is due below `end`, from anywhere; return whether to go on."""
        deadlines = self.attributes.deadlines
        if not deadlines:
            return False
        queue = self._queue
        due = deadlines.take_due(looked_ms)
        for start, stop in due:
            if stop > end:
                # Not offered yet.
                deadlines.rearm(max(start, end), stop)
            if start < end:
                for taken in queue.ready.take_range(start, min(stop, end)):
                    queue.drop(taken.start, taken.end, EXPIRED)
        # What is not offered yet would be looked at again and again.
        return len(due) == DUE_RUNS_MAX and due[0][0] < end

    def _keep_length(self) -> None:
        """Drop the oldest; a queue that refuses keeps what it took, though some was requeued."""
        if self._limit is None or self._queue.refuses_when_full:
            return
        while count := self._limit.excess():
            taken = self._queue.ready.take(count)
            self._queue.drop(taken.start, taken.end, MAXLEN)

    def _arm_timer(self, looked_ms: int) -> None:
        """Come back at the next deadline.

        Args:
            looked_ms: When the messages were looked at. Not a moment later: what has become due
                since then would wait for a timer that nobody sets.
        """
        next_ms = self.attributes.deadlines.next_ms
        # A deadline that had passed by then waits for something else than for time.
        if next_ms is None or next_ms <= looked_ms:
            return
        next_ms = min(next_ms, looked_ms + int(TIMER_SECONDS_MAX * 1000))
        if self._timer is not None:
            if self._timer_ms <= next_ms:
                return
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._turn.mark_after((next_ms - looked_ms) / 1000, self)
