"""Reads the sizes of the messages of a queue that gets a limit in octets while it works."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from amqp_server.broker.orders.byte_counted_order import ByteCountedOrder
from amqp_server.broker.rules.message_attributes import body_bytes
from amqp_server.broker.rules.rule_changes import apply_limit, measure_in_memory
from appendlog import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.rules.rule_changes import ChangedQueue

logger = logging.getLogger("amqp_server.broker.rules.size_measurement")

READ_BYTES: Final = 1024 * 1024
READ_RECORDS: Final = 4096
"""Most bytes and records that are read from the log at a time, by a worker."""
RETRY_SECONDS: Final = 1.0
"""Pause after a log could not be read."""


async def measure_sizes(queue: ChangedQueue, is_stopping: Callable[[], bool]) -> None:
    """Note the sizes of all messages that a queue has now; then its limit in octets applies.

    Ends early if the queue is deleted, or has no limit in octets any more.

    Args:
        queue: Queue whose rules have just begun to count octets.
        is_stopping: Returns whether the server stops; then this ends early too.
    """
    rules = queue.rules
    order = queue.ready
    assert rules is not None, "a queue with a limit has rules"
    at, end = queue.settlement.ack_floor, queue.store.end_offset
    while at < end:
        if queue.store.ring.window_start <= at:
            at = measure_in_memory(queue, at, end)
            await asyncio.sleep(0)
        else:
            at = await _measure_in_log(queue, at)
        if (
            is_stopping()
            or queue.is_deleted
            or queue.ready is not order
            or queue.rules is not rules
        ):
            return
    rules.has_unknown_sizes = False
    apply_limit(queue, rules)
    queue.wake()


async def _measure_in_log(queue: ChangedQueue, at: int) -> int:
    """Note the sizes of messages of the log from `at` on; return where to go on."""
    # What lies below is in the log, or is settled.
    window_start = queue.store.ring.window_start
    order = queue.ready
    try:
        result = await asyncio.to_thread(queue.store.log.read, at, READ_BYTES, READ_RECORDS)
    except LogError as error:
        logger.error(  # noqa: TRY400 - one line says it all
            "sizes of messages not read queue=%s vhost=%s error=%s",
            queue.name,
            queue.virtual_host.name,
            error,
        )
        await asyncio.sleep(RETRY_SECONDS)
        return at
    if queue.ready is not order or not isinstance(order, ByteCountedOrder):
        return at
    start, sizes = at, list[int]()
    for offset, message in zip(result.offsets, result.messages, strict=True):
        if offset >= window_start:
            break
        if offset != start + len(sizes):
            order.put_sizes(start, sizes)
            start, sizes = offset, []
        sizes.append(body_bytes(message))
    order.put_sizes(start, sizes)
    # Where the log has nothing more, everything below the window is settled.
    return min(result.next_offset, window_start) if result.next_offset > at else window_start
