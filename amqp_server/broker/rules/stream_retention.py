"""Shortens a stream: messages leave it when their segment is too old or exceeds its size."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from appendlog.reclaim.stream_retention import stream_start

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

logger = logging.getLogger(__name__)


def shorten(queue: Queue, now_ns: int) -> None:
    """Settle the messages at the start of a stream that its bounds no longer keep.

    Retention removes the segments once a checkpoint holds this (I1). Subscriptions continue at the
    new start. Groups count the messages that they lost.

    Args:
        queue: The stream.
        now_ns: Current time in nanoseconds since 1970 UTC.
    """
    start = stream_start(queue.store.log.segments, queue.storage_settings.stream, now_ns)
    floor = queue.settlement.ack_floor
    if start <= floor or queue.is_draining:
        return
    for low, high in queue.settlement.unsettled_ranges(floor, start):
        queue.settle(low, high)
    queue.subscriptions.begin_at(start)
    if queue.groups is not None:
        queue.groups.drop_below(start)
    logger.info(
        "stream shortened queue=%s vhost=%s from=%d to=%d",
        queue.name,
        queue.virtual_host.name,
        floor,
        start,
    )
