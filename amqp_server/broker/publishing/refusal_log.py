"""Logs which queues refuse messages: at most once a minute for each queue."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("amqp_server.broker.publishing.refusal_log")

PAUSE_SECONDS = 60.0
"""Least time between two log lines about the same queue."""


class RefusalLog:
    """Counts the messages that one queue without a working log refused, and logs the count.

    A publisher without confirms gets no other sign of it.
    """

    __slots__ = ("_count", "_logged_seconds")

    def __init__(self) -> None:
        self._count = 0
        self._logged_seconds = 0.0

    def count(self, vhost: str, queue: str, count: int) -> None:
        """Count refused messages, and log all of them if that is due.

        Args:
            vhost: Name of the queue's virtual host.
            queue: Queue whose log has failed, or could not be opened.
            count: Refused messages; each attempt to forward the same dead letter counts.
        """
        is_first = not self._count
        self._count += count
        now = time.monotonic()
        if not is_first and now < self._logged_seconds + PAUSE_SECONDS:
            return
        self._logged_seconds = now
        logger.warning(
            "messages refused vhost=%s queue=%s refused=%d reason=%s",
            vhost,
            queue,
            self._count,
            "its log has failed, or could not be recovered",
        )
