"""The lease of a queue with `x-expires`: it goes when nobody has used it for that long.

Using it means to declare it (passively too), to get from it, or to consume from it, which counts
until the consumer ends. Publishing, binding and acknowledging do not. The time starts again
when the server does: nobody could use the queue while it was down.

Source: RabbitMQ `rabbit_amqqueue_process` (`ensure_expiry_timer`), and what 3.10 was seen to do.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Timer, Turn

logger = logging.getLogger(__name__)


class ExpiryTimer:
    """How long one queue may stay unused. The event loop owns it.

    Args:
        queue: The queue, just made or just recovered.
        seconds: How long, above 0.
        turn: For the timer.
        delete: Called with the queue when the time is over.

    Attributes:
        is_over: Whether it was cancelled; then the queue stays.
    """

    def __init__(
        self, queue: Queue, seconds: float, turn: Turn, delete: Callable[[Queue], None]
    ) -> None:
        self._queue = queue
        self._seconds = seconds
        self._turn = turn
        self._delete = delete
        self._timer: Timer | None = None
        self.is_over = False
        self._end = 0.0
        self.renew()

    def renew(self) -> None:
        """Count from now on: the queue was used, or its last consumer has left."""
        self._end = monotonic() + self._seconds
        if self._timer is None and not self.is_over:
            # A timer that runs is left alone: it looks again when it comes. Polling with
            # basic.get so costs no timer a message.
            self._timer = self._turn.mark_after(self._seconds, self)

    def cancel(self) -> None:
        """Let the queue be for good: it was deleted otherwise, or the server stops."""
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def run_turn(self) -> None:
        """Delete the queue if the time is over, or see when to look again."""
        self._timer = None
        if self.is_over or len(self._queue.consumers):
            # The last consumer to leave renews it.
            return
        left_seconds = self._end - monotonic()
        if left_seconds > 0:
            self._timer = self._turn.mark_after(left_seconds, self)
            return
        logger.info(
            "queue expired queue=%s vhost=%s", self._queue.name, self._queue.virtual_host.name
        )
        self._delete(self._queue)
