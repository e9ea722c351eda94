"""Delivery timeouts: a delivery that is not acknowledged in time closes its channel.

A channel has timeouts only if one of its consumers does. It records when deliveries went out as
marks. A mark is a delivery tag, with the time of the deliveries from there to the next mark. It
covers a hundredth of the timeout, so there are few marks at any rate. A delivery counts from the
last moment that its mark covers: a timeout never comes early, but may come a little late.

Source: RabbitMQ `rabbit_channel:evaluate_consumer_timeout`, which may be a minute late.
"""

from __future__ import annotations

from bisect import bisect_right
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.unacked import UnackedRuns
    from amqp_server.broker.turn import Timer, Turn

MARKS_PER_TIMEOUT = 100


class TimedChannel(Protocol):
    """A channel, as its delivery timeouts see it."""

    @property
    def number(self) -> int:
        """Number of the channel in its connection."""

    @property
    def client(self) -> Client:
        """Connection of the channel."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing may be sent any more."""

    @property
    def unacked(self) -> UnackedRuns:
        """Deliveries that are not acknowledged yet."""


class DeliveryTimeouts:
    """When the unacked deliveries of one channel went out. The event loop owns it.

    Args:
        channel: Channel that is closed with 406 when a delivery is not acknowledged in time.
        turn: Turn that runs the timer; there is at most one timer.
    """

    def __init__(self, channel: TimedChannel, turn: Turn) -> None:
        self._channel = channel
        self._turn = turn
        self._first_tags: list[int] = []
        self._begun: list[float] = []
        self._ended: list[float] = []
        self._timer: Timer | None = None
        self._due = 0.0

    def note(self, first_tag: int, timeout_ms: int) -> None:
        """Record deliveries that go out now; their tags are higher than all others.

        Args:
            first_tag: Delivery tag of the first delivery.
            timeout_ms: Time to acknowledge them, in milliseconds, >= 1.
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
            self._schedule_check(now + seconds, now)

    def cancel(self) -> None:
        """Stop checking, because the channel is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def run_turn(self) -> None:
        """Close the channel if a delivery is overdue; otherwise schedule the next check."""
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
            self._schedule_check(next_due, now)

    def _schedule_check(self, due: float, now: float) -> None:
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
