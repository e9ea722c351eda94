"""Rows of `offsets` replies: the state of one group, or of an ordinary queue's settlement."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from amqp_server.admin.views.values import text_json
from amqp_server.broker.stream import Stream
from amqp_server.broker.subscriptions.group_lag import lag_bytes, timestamp_ns_at
from appendlog import LogError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.queue import Queue

Row = dict[str, Any]


def group_row(queue: Queue, shard: int | None, name: str) -> Row:
    """Return the state of one group of a stream, or a row that says it does not exist.

    Args:
        queue: The stream.
        shard: Its shard number; None if the command named the queue itself.
        name: Name of the group.
    """
    groups = queue.groups
    assert groups is not None, "only streams have groups"
    row = {**_log_row(queue, shard), "group": name, "exists": name in groups}
    if name not in groups:
        return row
    group = groups.get(name)
    found = group.stats()
    oldest = found.oldest_unacked_seconds
    return row | {
        "committed": found.committed,
        "start": found.start,
        "position": next_offset(group.subscription.ready),
        "lag": found.lag,
        "lag_bytes": found.lag_bytes,
        "ready": found.ready,
        "unacked": found.unacked,
        "acked_ahead": found.settled_above,
        "oldest_unacked_seconds": None if oldest is None else round(oldest, 3),
        "delivered": found.delivered,
        "acked": found.acked,
        "redelivered": found.redelivered,
        "rejected": found.rejected,
        "dropped_total": found.dropped_total,
        "dropped_since_last_poll": found.dropped_since_last_poll,
        "updated_at_ns": found.updated_at_ns or None,
        "members": found.members,
    }


def queue_row(queue: Queue, shard: int | None) -> Row:
    """Return the settlement of an ordinary queue; its consumers together are like one group."""
    queue.fold_deliveries()
    settlement = queue.settlement
    floor, end = settlement.ack_floor, queue.store.end_offset
    ready = queue.ready_count
    position = queue.delivered_watermark if queue.loading.is_loading else next_offset(queue.ready)
    return {
        **_log_row(queue, shard),
        "group": None,
        "exists": True,
        "committed": floor,
        "start": floor,
        "position": position,
        "lag": end - floor,
        "lag_bytes": lag_bytes(queue.store.log.segments, floor, end),
        "ready": ready,
        "unacked": queue.unacked_count,
        "acked_ahead": settlement.settled_above_floor,
        "oldest_unacked_seconds": None,
        "delivered": queue.counters.delivered,
        "acked": queue.counters.acked,
        "redelivered": queue.counters.redelivered,
        "rejected": None,
        "dropped_total": queue.force_removed_count,
        "dropped_since_last_poll": None,
        "updated_at_ns": None,
        "members": queue.consumer_count,
    }


async def add_lag_seconds(rows: Sequence[Row], queues: Sequence[Queue], now_ns: int) -> None:
    """Add to rows the age of their first unsettled message; None if it cannot be read.

    Reads one record of each log in a worker.
    """
    starts = [row.get("start") for row in rows]

    def read() -> list[float | None]:
        return [
            _age_seconds(queue, start, now_ns) for queue, start in zip(queues, starts, strict=True)
        ]

    for row, seconds in zip(rows, await asyncio.to_thread(read), strict=True):
        if row["exists"]:
            row["lag_seconds"] = seconds


def next_offset(ready: ReadyOrder) -> int:
    """Return the offset that is delivered next; the end of the order if none is ready."""
    first = ready.peek()
    return ready.end if first is None else first.start


def _log_row(queue: Queue, shard: int | None) -> Row:
    row: Row = {} if shard is None else {"shard": shard}
    end = queue.visible_end if isinstance(queue, Stream) else queue.store.end_offset
    return row | {
        **text_json("queue", queue.name),
        **text_json("vhost", queue.virtual_host.name),
        "log_start_offset": queue.store.log.log_start_offset,
        "log_end_offset": end,
    }


def _age_seconds(queue: Queue, start: int | None, now_ns: int) -> float | None:
    log = queue.store.log
    end = queue.visible_end
    start = log.log_start_offset if start is None else max(start, log.log_start_offset)
    if start >= end:
        return 0.0
    try:
        appended_ns = timestamp_ns_at(log, start)
    except LogError:
        return None
    return None if appended_ns is None else round(max(now_ns - appended_ns, 0) / 1e9, 3)
