"""Appends messages to the queues that they were routed to, and returns their barriers."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from amqp_server.broker.publishing.confirms import Barrier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amqp_server.broker.counters.owners import CountedExchange
    from amqp_server.broker.publishing.target_queue import TargetQueue
    from amqp_server.broker.publishing.throttled_publishers import Throttled


def enqueue(
    queues: Sequence[TargetQueue], messages: list[bytes], flags: int
) -> tuple[list[Barrier], list[TargetQueue]]:
    """Append all messages, which no client has published, to every queue; see `enqueue_each`."""
    return enqueue_each(zip(queues, repeat(messages), strict=False), flags)


def enqueue_each(
    queued: Iterable[tuple[TargetQueue, list[bytes]]],
    flags: int,
    exchange: CountedExchange | None = None,
    client: Throttled | None = None,
) -> tuple[list[Barrier], list[TargetQueue]]:
    """Append to every queue what is for it, in order.

    Args:
        queued: Target queues, each once, and their messages. Queues may share the messages and do
            not change them; just one if a queue `refuses_when_full`.
        flags: Flags octet that all the messages have; `HAS_HEADERS` may differ.
        exchange: Exchange that a client has published them to; None: no client has, or the caller
            counts what comes from clients.
        client: It is not read from now on while one of the queues has no room; None: it is nobody.

    Returns:
        The barriers that must be reached before the messages are safe, and the queues that
        refused them (the other queues have them).
    """
    barriers: list[Barrier] = []
    refusing: list[TargetQueue] = []
    for queue, messages in queued:
        if queue.is_deleted:
            # It was deleted after the messages were routed.
            continue
        if queue.is_failed or (queue.refuses_when_full and queue.refuses(messages[0], flags)):
            refusing.append(queue)
            queue.count_incoming(len(messages), exchange)
            if queue.is_failed:
                queue.count_and_log_refused(len(messages))
        else:
            end_offset = queue.publish(messages, flags, exchange)
            if queue.awaits(end_offset, flags):
                barriers.append(Barrier(queue, end_offset - len(messages), end_offset))
        if client is not None and queue.store.throttles_publishers:
            queue.throttle(client)
    return barriers, refusing
