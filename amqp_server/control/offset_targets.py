"""The offset that a place has in one log now, for a group that is to go there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.start_position import StartKind, start_offset

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.start_position import StartPosition


async def target_offset(queue: Queue, target: StartPosition) -> int:
    """Return the offset in one log; an offset that was asked for as it is, to be checked.

    Raises:
        LogFailedError: The log cannot be read.
    """
    if target.kind is StartKind.OFFSET:
        return target.number
    if target.kind is StartKind.NEXT:
        # What was published before is not meant, and has its offset only on the disk.
        end = queue.store.end_offset
        await queue.store.make_durable()
        return min(end, queue.visible_end)
    return min(await start_offset(queue, target), queue.visible_end)
