"""The command `queues.stats`: returns what each queue holds, in memory and on the disk."""

from __future__ import annotations

import asyncio
import heapq
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json
from amqp_server.broker.stream import Stream
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from appendlog.log_statistics import log_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.observed_queue import ObservedQueue
    from amqp_server.upkeep.checkpointer import Checkpointer

PAGE_QUEUES_MAX: Final = 500
"""Queues in one reply, so that no turn of the event loop is long; pass `after` for more."""


async def stats(
    broker: Broker, checkpointer: Checkpointer, vhost: str, queue: str, after: str, limit: int
) -> dict[str, object]:
    """Return a page of queues by virtual host and name, each with its statistics.

    Args:
        broker: Broker with the queues.
        checkpointer: Knows the age of their checkpoints.
        vhost: Virtual host of the queues; empty for all.
        queue: Name of the queues; empty for all.
        after: `next` of the page before; empty for the first page.
        limit: Largest number of queues, 1 to `PAGE_QUEUES_MAX`.

    Raises:
        ControlError: The limit is out of range, or the virtual host does not exist.
    """
    if not 1 <= limit <= PAGE_QUEUES_MAX:
        reason = f"queues.stats: limit is {limit}, must be 1 to {PAGE_QUEUES_MAX}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if vhost and vhost not in broker.vhosts:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    behind = _place_from(after)
    chosen = (each for each in _queues(broker, vhost, queue) if _place(each) > behind)
    page = heapq.nsmallest(limit + 1, chosen, key=_place)
    more = len(page) > limit
    del page[limit:]
    rows = [queue_stats(checkpointer, each) for each in page]
    if queue:
        # These read files, so not for thousands of queues.
        for each, row in zip(page, rows, strict=True):
            row |= await asyncio.to_thread(_index_stats, each)
    return {"queues": rows, "next": _place_text(page[-1]) if more else ""}


def _queues(broker: Broker, vhost: str, name: str) -> Iterator[ObservedQueue]:
    for host in [broker.vhosts[vhost]] if vhost else list(broker.vhosts.values()):
        if name:
            if name in host.queues:
                yield host.queues[name]
        else:
            yield from host.queues.values()


def queue_stats(checkpointer: Checkpointer, queue: ObservedQueue) -> dict[str, Any]:
    """Return the statistics of one queue. Costs microseconds; reads no file."""
    store = queue.store
    settlement = queue.settlement
    log = queue.store.log
    settings = queue.settings
    kept = queue.storage_settings
    end = store.end_offset
    ready = queue.ready_count
    counts = queue.delivery_counts
    return {
        **text_json("vhost", queue.virtual_host.name),
        **text_json("name", queue.name),
        "type": settings.type.value,
        "state": _state(queue),
        "failed": str(log.failed) if log.failed else None,
        "is_durable": queue.durable,
        "is_exclusive": queue.exclusive_owner is not None,
        "durability": kept.durability.value if queue.is_journaled else "none",
        "incarnation": str(queue.incarnation),
        "consumers": queue.consumer_count,
        "ready": ready,
        "unacked": queue.unacked_count,
        "leaving": queue.leaving_count,
        **traffic_stats(queue),
        "delivered_end": queue.delivered_watermark,
        "returned_offsets": 0 if counts is None else len(counts),
        "ack_floor": settlement.ack_floor,
        "settled_above_floor": settlement.settled_above_floor,
        "checkpointed_floor": queue.checkpointed_floor if queue.is_journaled else None,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": end,
        "recovery_point": store.recovery_point if queue.is_journaled else None,
        "checkpoint_age_seconds": checkpoint_age_seconds(checkpointer, queue),
        **log_statistics(log, store.recovery_point if queue.is_journaled else None).as_json(),
        "damaged_chunks": log.damaged_chunks,
        "unremoved_bytes": sum(segment.size_bytes for segment in log.reclaim.unremoved),
        "ring_messages": len(store.ring),
        "ring_bytes": store.ring.held_bytes,
        "window_bytes": store.windows.held_bytes,
        "windows_read": store.windows.reads,
        "windows_failed": store.windows.failed_reads,
        "segments_mapped": log.mapped_count,
        "ring_fill": round(store.ring.fill, 4),
        "is_stalled": store.is_stalled,
        "retain_for_seconds": kept.retention.retain_for_ns / 1e9,
        "retain_bytes": kept.retention.retain_bytes,
        "retain_segments_min": kept.retention.segments_min,
        "protect_unconsumed": kept.retention.protects_unconsumed,
        "force_remove_after_seconds": kept.retention.force_after_ns / 1e9,
        "force_removed": queue.force_removed_count,
        "retention_bytes": log.reclaim.retention_bytes,
        "compaction_bytes": log.reclaim.compaction_bytes,
        "compacted_segments": log.reclaim.compacted_segments,
        "segment_bytes": kept.segment_bytes,
        "segment_age_seconds": kept.segment_age_seconds,
        "compression": kept.compression.value,
        **queue.policy.as_json(),
    }


def traffic_stats(queue: ObservedQueue) -> dict[str, int]:
    """Return the traffic of a queue since the server started; see docs/statistics.md."""
    queue.fold_deliveries()
    counters = queue.counters
    settled = queue.settlement.settled_count - queue.opened_settled
    # Retention settles a stream's messages; acks settle nothing in it.
    dropped = settled if isinstance(queue, Stream) else settled - counters.acked
    return {
        "appended": queue.store.end_offset - queue.opened_end,
        "delivered": counters.delivered,
        "redelivered": counters.redelivered,
        "acked": counters.acked,
        "dropped": max(dropped, 0),
    }


def checkpoint_age_seconds(checkpointer: Checkpointer, queue: ObservedQueue) -> float | None:
    """Return the age of the checkpoint of a queue; None if it does not survive a restart."""
    if not queue.is_journaled:
        return None
    return round(checkpointer.age_seconds, 3)


def _state(queue: ObservedQueue) -> str:
    if queue.is_failed:
        return "failed"
    if queue.is_paused:
        return "paused"
    return "waiting for the disk" if queue.store.is_stalled else "running"


def _index_stats(queue: ObservedQueue) -> dict[str, int]:
    found = queue.store.log.index_statistics()
    return {
        "index_entries": found.entries,
        "index_bytes": found.size_bytes,
        "index_interval_bytes": found.interval_bytes,
        "indexes_rebuilt": found.rebuilt,
    }


def _place(queue: ObservedQueue) -> tuple[bytes, bytes]:
    """Return the sort key of a queue in octets, because names may not be valid UTF-8."""
    return _octets(queue.virtual_host.name), _octets(queue.name)


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _place_text(queue: ObservedQueue) -> str:
    return ".".join(octets.hex() for octets in _place(queue))


def _place_from(text: str) -> tuple[bytes, bytes]:
    if not text:
        return b"", b""
    try:
        vhost, name = text.split(".")
        return bytes.fromhex(vhost), bytes.fromhex(name)
    except ValueError:
        reason = "queues.stats: 'after' is not what an answer gave as 'next'"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason) from None


def statistics_commands(broker: Broker, checkpointer: Checkpointer) -> tuple[Command, ...]:
    """Return the command `queues.stats` of a server with these parts."""
    arguments = {"vhost": str, "queue": str, "after": str, "limit": int}
    return (Command("queues.stats", partial(stats, broker, checkpointer), arguments),)
