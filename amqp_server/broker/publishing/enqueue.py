"""Appends messages to the queues that they were routed to, and returns their barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.publishing.confirms import Barrier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.counters.owners import CountedExchange
    from amqp_server.broker.publishing.target_queue import TargetQueue


def enqueue(
    queues: Sequence[TargetQueue],
    messages: list[bytes],
    flags: int,
    exchange: CountedExchange | None = None,
) -> tuple[list[Barrier], list[TargetQueue]]:
    """Append all messages to every queue, in order.

    Args:
        queues: Target queues, each once.
        messages: Messages that the queues share and do not change; just one if a queue
            `refuses_when_full`.
        flags: Flags octet that all the messages have; `HAS_HEADERS` may differ.
        exchange: Exchange that a client has published them to; None: no client has.

    Returns:
        The barriers that must be reached before the messages are safe, and the queues that
        refused them (the other queues have them).
    """
    barriers: list[Barrier] = []
    refusing: list[TargetQueue] = []
    for queue in queues:
        if queue.is_deleted:
            # It was deleted after the messages were routed.
            continue
        if queue.is_failed or (queue.refuses_when_full and queue.refuses(messages[0], flags)):
            refusing.append(queue)
            queue.count_incoming(len(messages), exchange)
            if queue.is_failed:
                queue.count_and_log_refused(len(messages))
            continue
        end_offset = queue.publish(messages, flags, exchange)
        if queue.awaits(end_offset, flags):
            barriers.append(Barrier(queue, end_offset - len(messages), end_offset))
    return barriers, refusing
