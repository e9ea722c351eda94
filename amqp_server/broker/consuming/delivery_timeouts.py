"""Delivery timeouts: a delivery that is not acknowledged in time closes its channel.

A channel has timeouts only if one of its consumers does. It records when deliveries went out as
marks, apart for each length of the timeout. A mark is a delivery tag, with the time of the
deliveries from there to the next mark. It covers a hundredth of the timeout, so there are few marks
at any rate. A delivery counts from the last moment that its mark covers: a timeout never comes
early, but may come a little late.

Marks of one timeout become due in their order. Only the deliveries of a mark that is due are looked
at, a thousand runs in each step, and once.

Source: RabbitMQ `rabbit_channel:evaluate_consumer_timeout`, which may be a minute late.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.base.clock import Timer
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.unacked import UnackedRuns
    from amqp_server.broker.turn import Turn

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


@dataclass(slots=True)
class _Mark:
    """Deliveries from `first_tag` on, up to the next mark; went out from `begun` to `ended`."""

    first_tag: int
    begun: float
    ended: float


class DeliveryTimeouts:
    """When the unacked deliveries of one channel went out. The event loop owns it.

    Args:
        channel: Channel that is closed with 406 when a delivery is not acknowledged in time.
        turn: Turn that runs the timer; there is at most one timer.
    """

    def __init__(self, channel: TimedChannel, turn: Turn) -> None:
        self._channel = channel
        self._turn = turn
        self._monotonic = turn.clock.monotonic
        # By timeout in milliseconds.
        self._marks: dict[int, deque[_Mark]] = {}
        # The lowest tag of the marks that were due, by timeout: some of their deliveries may be
        # deferred by a transaction.
        self._passed: dict[int, int] = {}
        # When the first mark of a timeout is due, or earlier; and the timeout.
        self._dues: list[tuple[float, int]] = []
        self._timer: Timer | None = None
        self._timer_due = 0.0

    def __len__(self) -> int:
        """Return the number of marks."""
        return sum(map(len, self._marks.values()))

    def record(self, first_tag: int, timeout_ms: int) -> None:
        """Record deliveries that go out now; their tags are higher than all others.

        Args:
            first_tag: Delivery tag of the first delivery.
            timeout_ms: Time to acknowledge them, in milliseconds, >= 1.
        """
        now = self._monotonic()
        seconds = timeout_ms / 1000
        marks = self._marks.get(timeout_ms)
        if marks is None:
            self._add(_Mark(first_tag, now, now), timeout_ms, now + seconds)
        elif now - marks[-1].begun < seconds / MARKS_PER_TIMEOUT:
            marks[-1].ended = now
        else:
            marks.append(_Mark(first_tag, now, now))
        if self._timer is None or now + seconds < self._timer_due:
            self._schedule_check(now + seconds, now)

    def on_rollback(self) -> None:
        """Look again at deliveries whose time was up while a transaction deferred their acks."""
        passed, self._passed = self._passed, {}
        now = self._monotonic()
        for timeout_ms, first_tag in passed.items():
            sent = now - timeout_ms / 1000
            self._add(_Mark(first_tag, sent, sent), timeout_ms, now)
        if passed:
            self._schedule_check(now, now)

    def cancel(self) -> None:
        """Stop checking, because the channel is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def run_turn(self) -> None:
        """Close the channel if a delivery is overdue; otherwise schedule the next check."""
        self.cancel()
        if self._channel.is_closed:
            return
        if not self._channel.unacked.count:
            # Not even deferred ones.
            self._marks.clear()
            self._passed.clear()
            self._dues.clear()
            return
        now = self._monotonic()
        while self._dues and self._dues[0][0] <= now:
            _, timeout_ms = heappop(self._dues)
            marks = self._marks[timeout_ms]
            due = marks[0].ended + timeout_ms / 1000
            if due <= now:
                if self._is_one_overdue(marks, timeout_ms):
                    self._close(timeout_ms)
                    return
                if not marks:
                    del self._marks[timeout_ms]
                    continue
                due = marks[0].ended + timeout_ms / 1000
            heappush(self._dues, (due, timeout_ms))
            if self._turn.time_slice.is_over:
                self._turn.mark(self)
                return
        if self._dues:
            self._schedule_check(self._dues[0][0], now)

    def _add(self, mark: _Mark, timeout_ms: int, due: float) -> None:
        """Add a mark before all others of its timeout."""
        self._marks.setdefault(timeout_ms, deque()).appendleft(mark)
        heappush(self._dues, (due, timeout_ms))

    def _is_one_overdue(self, marks: deque[_Mark], timeout_ms: int) -> bool:
        """Look at some deliveries of the first mark, which is due; remove it after the last."""
        mark = marks[0]
        self._passed[timeout_ms] = min(mark.first_tag, self._passed.get(timeout_ms, mark.first_tag))
        runs = self._channel.unacked.some_from(mark.first_tag)
        for run in runs:
            if len(marks) > 1 and run.first_tag >= marks[1].first_tag:
                break
            if run.consumer is not None and run.consumer.timeout_ms == timeout_ms:
                return True
            mark.first_tag = run.end_tag
        else:
            if runs:
                return False
        marks.popleft()
        return False

    def _schedule_check(self, due: float, now: float) -> None:
        self.cancel()
        self._timer_due = due
        self._timer = self._turn.mark_after(due - now, self)

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
