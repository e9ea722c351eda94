"""A subscription that delivers only the messages that a filter accepts."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_server.broker.consuming.dispatch import dispatch
from amqp_server.broker.storing.message_run import matching_ranges
from amqp_server.broker.subscriptions.subscription import Subscription

if TYPE_CHECKING:
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.subscriptions.stream_filter import StreamFilter
    from amqp_server.broker.subscriptions.subscription import SubscribedQueue
    from amqp_server.broker.turn import Turn

TURN_MESSAGES_MAX: Final = 16_384
"""Messages that one turn examines, in about a millisecond."""
_RUN_COST: Final = 64
"""Cost of delivering a run, in examined messages."""


class FilteredSubscription(Subscription):
    """Examines messages a run at a time, and removes those from its order that no consumer wants.

    Skipped messages cost no credit. While no consumer has credit, it examines nothing.

    Args:
        queue: SubscribedQueue whose log it reads.
        turn: Turn at whose end it delivers.
        start: First offset to examine.
        wanted: Filter of its consumers.
    """

    def __init__(
        self, queue: SubscribedQueue, turn: Turn, start: int, wanted: StreamFilter
    ) -> None:
        super().__init__(queue, turn, start)
        self._wanted = wanted
        # Wanted ranges below `_examined_end` that are not delivered yet.
        self._found: deque[tuple[int, int]] = deque()
        self._examined_end = start

    def read_run(self, start: int, end: int) -> Messages:
        """Return the wanted messages from `start` on that are in memory, at most up to `end`."""
        self._forget_below(start)
        if not self._found or self._found[0][0] > start:
            return []
        return super().read_run(start, min(end, self._found[0][1]))

    def _serve(self) -> Consumer | None:
        """Examine and deliver messages by turns.

        Returns:
            A consumer, if there is more to examine or deliver at once.
        """
        left = TURN_MESSAGES_MAX
        while left > 0:
            ready = self.ready.peek()
            if ready is None or not any(consumer.credit for consumer in self.consumers):
                return None
            self._forget_below(ready.start)
            if self._examined_end <= ready.start:
                examined = self._examine(ready.start, min(ready.end, ready.start + left))
                if not examined:
                    # A worker reads the messages from the log and wakes the subscription.
                    return None
                left -= examined
            elif self._found and self._found[0][0] <= ready.start:
                dispatch(self, self._turn.time_slice)
                now_ready = self.ready.peek()
                if now_ready is not None and now_ready.start == ready.start:
                    return None
                left -= _RUN_COST
            else:
                end = self._found[0][0] if self._found else self._examined_end
                self.ready.take_range(ready.start, end)
        return self.consumers.first

    def _examine(self, start: int, end: int) -> int:
        """Find the wanted messages of `[start, end)`; return how many messages were in memory."""
        messages = super().read_run(start, end)
        if messages:
            wanted = self._wanted
            for low, high in matching_ranges(messages, wanted.values, wanted.match_unfiltered):
                self._found.append((start + low, start + high))
            self._examined_end = start + len(messages)
        return len(messages)

    def _forget_below(self, start: int) -> None:
        while self._found and self._found[0][1] <= start:
            self._found.popleft()
