"""Purges queues."""

from __future__ import annotations

from asyncio import ensure_future, shield
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.declaring.names import find_named_queue, queue_name
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.queue import PURGE_STEP_OFFSETS
from amqp_server.broker.stream import refuse_stream
from amqp_server.operations.applied import Applied
from amqp_server.operations.deferring import when_up_to_date

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.methods import QueuePurge


@dataclass(slots=True)
class Purged:
    """How many messages a purge has dropped; it counts on until the purge is durable."""

    messages: int = 0


def purge_queue(channel: Channel, method: QueuePurge) -> Applied[Purged]:
    """Drop the ready messages; those of a journaled queue cannot come back when it is durable.

    Raises:
        AmqpError: The client may not, or the queue is missing, another client's or a stream. If
            messages have to expire first, all is checked again afterwards, and `durable` raises.
    """
    purged = Purged()
    return Applied(purged, _purge(purged, channel, method))


def _purge(purged: Purged, channel: Channel, method: QueuePurge) -> Awaitable[None] | None:
    name = queue_name(channel, method.queue)
    channel.client.rights.require(Right.READ, "queue", name)
    queue = find_named_queue(channel, name)
    refuse_stream(queue, "queue.purge")
    if not queue.bring_up_to_date():
        return when_up_to_date(queue, channel, partial(_purge, purged), method)
    is_long = queue.store.end_offset - queue.settlement.ack_floor > PURGE_STEP_OFFSETS
    # Begin now: what is published after this method stays.
    purging = queue.purge()
    if is_long:
        # A purge that finds nothing more must wait for this one.
        queue.purge_under_way = ensure_future(_purge_in_turns(channel, queue, purging, purged))
        return shield(queue.purge_under_way)
    purged.messages = sum(purging)
    _record(channel, queue, purged.messages)
    if queue.is_journaled and (purged.messages or _has_failed(queue.purge_under_way)):
        queue.purge_under_way = ensure_future(channel.broker.make_settlement_durable(queue))
    elif queue.purge_under_way is None or queue.purge_under_way.done():
        return None
    # An empty queue stays empty after a crash only when the purge that emptied it is on the disk.
    return shield(queue.purge_under_way)


async def _purge_in_turns(
    channel: Channel, queue: Queue, purging: Iterator[int], purged: Purged
) -> None:
    """Take all steps of a purge; return when what it settled cannot come back."""

    def steps() -> Iterator[None]:
        for count in purging:
            purged.messages += count
            yield

    name = f"purge of queue {queue.name!r}"
    await done_in_turns(channel.broker.turn, channel.client.task_queue, steps(), name)
    _record(channel, queue, purged.messages)
    if queue.is_journaled:
        await channel.broker.make_settlement_durable(queue)


def _record(channel: Channel, queue: Queue, count: int) -> None:
    channel.broker.audit.record(
        "queue.purged",
        channel.client.actor,
        vhost=queue.virtual_host.name,
        name=queue.name,
        details={"messages": count},
        is_session=queue.exclusive_owner is not None,
    )


def _has_failed(purge_under_way: Future[None] | None) -> bool:
    if purge_under_way is None or not purge_under_way.done():
        return False
    return purge_under_way.cancelled() or purge_under_way.exception() is not None
