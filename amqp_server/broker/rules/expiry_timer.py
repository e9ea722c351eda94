"""The expiry timer of a queue with `x-expires`: deletes the queue when it is unused for so long.

A client uses the queue by declaring it (passively too), by `basic.get`, or by consuming, which
counts until the consumer ends. Publishing, binding and acknowledging do not count. The timer starts
again when the server does, because no client could use the queue while it was down.

Source: RabbitMQ `rabbit_amqqueue_process` (`ensure_expiry_timer`), and the behaviour of 3.10.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from amqp_server.base.clock import Timer
    from amqp_server.broker.queue_part import Namespace
    from amqp_server.broker.turn import Turn

logger = logging.getLogger("amqp_server.broker.rules.expiry_timer")


class UnusedQueue(Protocol):
    """A queue that is deleted when no client uses it."""

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def virtual_host(self) -> Namespace:
        """Virtual host of the queue."""

    @property
    def consumers(self) -> Sized:
        """Consumers of the queue."""


class ExpiryTimer:
    """Deletes one queue after a time without use. The event loop owns it.

    Args:
        queue: Queue that was declared or recovered just now.
        seconds: Time without use after which the queue is deleted, above 0.
        turn: Turn that runs the timer.
        delete: Called when the time is over.

    Attributes:
        is_over: Whether the timer was cancelled; then the queue stays.
    """

    def __init__(
        self, queue: UnusedQueue, seconds: float, turn: Turn, delete: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._seconds = seconds
        self._turn = turn
        self._monotonic = turn.clock.monotonic
        self._delete = delete
        self._timer: Timer | None = None
        self.is_over = False
        self._end = 0.0
        self.renew()

    def renew(self) -> None:
        """Start the time again: the queue was used, or its last consumer ended."""
        self._end = self._monotonic() + self._seconds
        if self._timer is None and not self.is_over:
            # A running timer stays unchanged and checks the new end when it fires. So polling with
            # basic.get starts no timer for each message.
            self._timer = self._turn.mark_after(self._seconds, self)

    def cancel(self) -> None:
        """Stop for good: the queue was deleted otherwise, or the server stops."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def run_turn(self) -> None:
        """Delete the queue if the time is over; otherwise schedule the next check."""
        self._timer = None
        if self.is_over or len(self._queue.consumers):
            # The queue renews the timer when its last consumer ends.
            return
        left_seconds = self._end - self._monotonic()
        if left_seconds > 0:
            self._timer = self._turn.mark_after(left_seconds, self)
            return
        logger.info(
            "queue expired queue=%s vhost=%s", self._queue.name, self._queue.virtual_host.name
        )
        self._delete()
