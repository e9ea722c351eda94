"""Logs which queues refuse messages: at most once a minute for each queue."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 60.0
"""Least time between two log lines about the same queue."""


def note_refused(queue: Queue, count: int) -> None:
    """Count messages that a queue without a working log refused, and log that if it is due.

    A publisher without confirms gets no other sign of it.

    Args:
        queue: Queue whose log has failed, or could not be opened.
        count: Refused messages; each attempt to forward the same dead letter counts.
    """
    is_first = not queue.refused_count
    queue.refused_count += count
    now = time.monotonic()
    if not is_first and now < queue.refusal_logged_seconds + PAUSE_SECONDS:
        return
    queue.refusal_logged_seconds = now
    logger.warning(
        "messages refused vhost=%s queue=%s refused=%d reason=%s",
        queue.virtual_host.name,
        queue.name,
        queue.refused_count,
        "its log has failed, or could not be recovered",
    )
