"""Converts a position to the offset that a group is to have in one log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.start_position import StartKind, start_offset

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.start_position import StartPosition


async def target_offset(queue: Queue, target: StartPosition) -> int:
    """Return the offset of a position in one log; a numeric offset is returned unchecked.

    Raises:
        LogFailedError: The log cannot be read.
    """
    if target.kind is StartKind.OFFSET:
        return target.number
    if target.kind is StartKind.NEXT:
        # Skip everything published before this command; a stream can show it only once it is on the
        # disk.
        end = queue.store.end_offset
        await queue.store.make_durable()
        return min(end, queue.visible_end)
    return min(await start_offset(queue, target), queue.visible_end)
