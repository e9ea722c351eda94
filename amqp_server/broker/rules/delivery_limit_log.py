"""The warning that a queue drops messages for good, because they came back too often."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

logger = logging.getLogger(__name__)


def note_past_limit(queue: Queue, count: int) -> None:
    """Warn that messages passed their delivery limit and are lost, once for each queue and start.

    A queue with a dead-letter exchange loses nothing: then this says nothing.

    Args:
        queue: A quorum queue with a delivery limit.
        count: Messages that it drops now.
    """
    if queue.is_delivery_limit_logged or queue.settings.dead_letter_exchange is not None:
        return
    queue.is_delivery_limit_logged = True
    logger.warning(
        "messages dropped vhost=%s queue=%s dropped=%d reason=%s action=%s",
        queue.virtual_host.name,
        queue.name,
        count,
        f"they came back more often than x-delivery-limit={queue.settings.delivery_limit} allows, "
        "and the queue has no dead-letter exchange",
        "declare the queue with x-dead-letter-exchange to keep such messages, or with "
        "x-delivery-limit=-1 for no limit; the queue does not say this again",
    )
