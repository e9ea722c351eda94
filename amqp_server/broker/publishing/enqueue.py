"""Putting messages into the queues that they were routed to, and what makes them safe there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.publishing.confirms import Barrier
from amqp_server.broker.publishing.refusal_log import note_refused
from amqp_server.broker.rules.overflow import refuse
from appendlog.layout.message import PERSISTENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue


def enqueue(
    queues: Sequence[Queue], messages: list[bytes], flags: int
) -> tuple[list[Barrier], list[Queue]]:
    """Give every queue all messages, in order.

    Args:
        queues: Each once.
        messages: Shared by the queues; not changed. One alone, if a queue `refuses_when_full`.
        flags: The flags octet that all of them have.

    Returns:
        What has to become durable before the messages are safe, and the queues that refused
        them (the others have them).
    """
    barriers: list[Barrier] = []
    refusing: list[Queue] = []
    for queue in queues:
        if queue.store.is_failed or (queue.refuses_when_full and refuse(queue, messages[0], flags)):
            refusing.append(queue)
            if queue.store.is_failed:
                note_refused(queue, len(messages))
            continue
        end_offset = queue.publish(messages, flags)
        if is_awaited(queue, end_offset, flags):
            barriers.append(Barrier(queue, end_offset))
    return barriers, refusing


def is_awaited(queue: Queue, end_offset: int, flags: int) -> bool:
    """Return whether messages of these flags, before an offset of a queue, are not safe yet.

    Nobody waits for what would not survive a restart anyway.
    """
    is_kept = (bool(flags & PERSISTENT) or queue.is_stream) and queue.is_journaled
    return is_kept and queue.store.confirmed_end < end_offset
