"""Consumers that take too long: a delivery that is not answered in time closes its channel.

A channel has this only when one of its consumers has a timeout; then it keeps when its
deliveries went out, as marks: a delivery tag, and the time of the deliveries from there to the
next mark. A mark covers a hundredth of the timeout, so there are few, whatever the rate. A
delivery counts from the last moment that its mark covers: never too early, a little late.

Source: RabbitMQ `rabbit_channel:evaluate_consumer_timeout`, which is as late as a minute.
"""

from __future__ import annotations

from bisect import bisect_right
from time import monotonic
from typing import TYPE_CHECKING

from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.turn import Timer, Turn

MARKS_PER_TIMEOUT = 100


class DeliveryTimeouts:
    """When the unanswered deliveries of one channel went out. The event loop owns it.

    Args:
        channel: The channel, closed with 406 when a delivery is not answered in time.
        turn: For the timer; there is one at most.
    """

    def __init__(self, channel: Channel, turn: Turn) -> None:
        self._channel = channel
        self._turn = turn
        self._first_tags: list[int] = []
        self._begun: list[float] = []
        self._ended: list[float] = []
        self._timer: Timer | None = None
        self._due = 0.0

    def note(self, first_tag: int, timeout_ms: int) -> None:
        """Take note of deliveries that go out now, with tags above all others.

        Args:
            first_tag: Delivery tag of the first.
            timeout_ms: How long their consumer may take, >= 1.
        """
        now = monotonic()
        seconds = timeout_ms / 1000
        if self._begun and now - self._begun[-1] < seconds / MARKS_PER_TIMEOUT:
            self._ended[-1] = now
        else:
            self._first_tags.append(first_tag)
            self._begun.append(now)
            self._ended.append(now)
        if self._timer is None or now + seconds < self._due:
            self._look_at(now + seconds, now)

    def cancel(self) -> None:
        """Look no more: the channel is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def run_turn(self) -> None:
        """Close the channel if a delivery is overdue, or see when to look again."""
        self._timer = None
        if self._channel.is_closed:
            return
        now = monotonic()
        next_due = 0.0
        for run in self._channel.unacked:
            timeout_ms = None if run.consumer is None else run.consumer.timeout_ms
            if not timeout_ms:
                continue
            due = self._sent_at(run.first_tag) + timeout_ms / 1000
            if due <= now:
                self._close(timeout_ms)
                return
            next_due = min(due, next_due or due)
        self._forget_answered()
        if next_due:
            self._look_at(next_due, now)

    def _look_at(self, due: float, now: float) -> None:
        self.cancel()
        self._due = due
        self._timer = self._turn.mark_after(due - now, self)

    def _sent_at(self, tag: int) -> float:
        return self._ended[bisect_right(self._first_tags, tag) - 1]

    def _forget_answered(self) -> None:
        oldest = next((run.first_tag for run in self._channel.unacked), None)
        if oldest is None:
            answered = len(self._first_tags)
        else:
            answered = bisect_right(self._first_tags, oldest) - 1
        for marks in (self._first_tags, self._begun, self._ended):
            del marks[: max(answered, 0)]

    def _close(self, timeout_ms: int) -> None:
        number = self._channel.number
        self._channel.client.close_channel(
            number,
            PreconditionFailed(
                f"delivery acknowledgement on channel {number} timed out. Timeout value used: "
                f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide "
                "to learn more"
            ),
        )
