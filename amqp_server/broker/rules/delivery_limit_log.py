"""The warning that a queue drops messages for good, because they came back too often."""

from __future__ import annotations

import logging

logger = logging.getLogger("amqp_server.broker.rules.delivery_limit_log")


def log_past_limit(vhost: str, queue: str, limit: int | None, count: int) -> None:
    """Warn that messages passed their delivery limit and are lost; once for each queue and start.

    Args:
        vhost: Name of the queue's virtual host.
        queue: Name of a quorum queue without a dead-letter exchange.
        limit: Delivery limit of the queue.
        count: Messages that it drops now.
    """
    logger.warning(
        "messages dropped vhost=%s queue=%s dropped=%d reason=%s action=%s",
        vhost,
        queue,
        count,
        f"they came back more often than x-delivery-limit={limit} allows, "
        "and the queue has no dead-letter exchange",
        "declare the queue with x-dead-letter-exchange to keep such messages, or with "
        "x-delivery-limit=-1 for no limit; the queue does not say this again",
    )
