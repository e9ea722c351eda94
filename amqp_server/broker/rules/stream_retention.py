"""The beginning of a stream: messages leave it when their segment is too old, or one too many."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from appendlog.reclaim.stream_retention import stream_start

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from offsets.settlement import Settlement

logger = logging.getLogger(__name__)


def shorten(queue: Queue, now_ns: int) -> None:
    """Be done with what a stream does not keep, whoever has read it.

    It counts as settled, so that its segments go when that is in a checkpoint (I1). Subscriptions
    go on at the new beginning; groups count what they were not done with.

    Args:
        queue: A stream.
        now_ns: Nanoseconds since 1970 UTC.
    """
    start = stream_start(queue.store.log.segments, queue.storage_settings.stream, now_ns)
    floor = queue.settlement.ack_floor
    if start <= floor or queue.is_winding_up:
        return
    for low, high in queue.settlement.unsettled_ranges(floor, start):
        queue.settle(low, high)
    queue.subscriptions.begin_at(start)
    if queue.groups is not None:
        queue.groups.drop_below(start)
    logger.info(
        "stream shortened queue=%s vhost=%s from=%d to=%d",
        *(queue.name, queue.virtual_host.name, floor, start),
    )


def stream_count(settlement: Settlement, end: int) -> int:
    """Return how many messages a stream has below `end`."""
    floor = settlement.ack_floor
    if not settlement.settled_above_floor:
        return max(end - floor, 0)
    return sum(high - low for low, high in settlement.unsettled_ranges(floor, max(end, floor)))
