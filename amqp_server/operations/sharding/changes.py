"""Creates and deletes sets of shards, through the operations of clients' declares and deletes.

A crash or a disk error may interrupt a change; the same command completes it. The exchange is
created first and deleted last, because it records how many shards there are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.declaring.names import check_not_locked
from amqp_server.broker.inner_client import inner_channel
from amqp_server.broker.job import done_in_turns
from amqp_server.operations.applied import Applied
from amqp_server.operations.binding import make_binding
from amqp_server.operations.exchange_declaring import declare_exchange
from amqp_server.operations.exchange_deleting import delete_exchange
from amqp_server.operations.queue_declaring import declare_queue
from amqp_server.operations.queue_deleting import delete_queue_now
from amqp_server.operations.sharding.checks import check_shards, refused_as
from amqp_server.operations.sharding.errors import NoSuchShardsError, ShardClashError
from amqp_server.operations.sharding.shard_set import WEIGHT, bound_queues, messages_of, shard_set
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.methods import ExchangeDelete, QueueDelete

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.operations.applied import AppliedSteps, Operation
    from amqp_server.operations.sharding.shard_set import ShardSet
    from amqp_server.protocol.tables import Table

QUEUES_PER_TURN: Final = 128
"""Queues that one turn of the loop creates or deletes; the next ones wait for the disk."""
_WHO: Final = "the shards command"


@dataclass(frozen=True, slots=True)
class Created:
    """What a create command has created; the rest of the set existed before.

    Attributes:
        exchange: Whether it created the exchange.
        queues: How many queues it created.
        bindings: How many bindings it created.
    """

    exchange: bool
    queues: int
    bindings: int


async def create_shards(
    broker: Broker, vhost: VirtualHost, wanted: ShardSet, arguments: Table
) -> Created:
    """Create a set of shards, or its missing parts; return when all of it is durable.

    It creates the queues before the first binding, and all bindings in one turn. So a message that
    is published to a new exchange goes nowhere, or to its right shard.

    Args:
        broker: Broker that owns the virtual host.
        vhost: Virtual host of the set.
        wanted: Set to create.
        arguments: Arguments of each queue.

    Raises:
        ShardsError: The set cannot be created; nothing has changed.
        AmqpError: A client made a conflicting change during the command; repeat the command to
            see the conflict.
        MetadataError: The disk refused a part of it.
    """
    channel = inner_channel(_WHO, vhost, broker)
    first_number = check_shards(channel, wanted, arguments)
    had_exchange = wanted.exchange in vhost.exchanges
    missing = sum(queue is None for queue in wanted.queues(vhost))
    await _all_done(channel, [partial(declare_exchange, channel, wanted.exchange_declare())])
    for shards in _batches(wanted):
        # Include existing queues: their definitions may still be on their way to the disk.
        declares = [wanted.queue_declare(shard, arguments) for shard in shards]
        await _all_done(channel, [partial(declare_queue, channel, each) for each in declares])
    bindings = await _bind(channel, wanted, first_number)
    return Created(not had_exchange, missing, bindings)


async def delete_shards(
    broker: Broker, vhost: VirtualHost, name: str, *, if_empty: bool
) -> tuple[ShardSet, int]:
    """Delete a set of shards with all messages; return when none of it can come back.

    Args:
        broker: Broker that owns the virtual host.
        vhost: Virtual host of the set.
        name: Name of the exchange.
        if_empty: Whether to refuse if a shard holds messages.

    Returns:
        The deleted set, and the number of deleted messages.

    Raises:
        ShardsError: There is no such set, or it may not be deleted; nothing has changed.
        MetadataError: The disk refused a part of it.
    """
    for queue in find_shards(vhost, name).queues(vhost):
        if queue is not None:
            await queue.until_up_to_date()
    # Other clients were served during that time.
    found = find_shards(vhost, name)
    channel = inner_channel(_WHO, vhost, broker)
    queues = [queue for queue in found.queues(vhost) if queue is not None]
    with refused_as(ShardClashError):
        for queue in queues:
            check_not_locked(channel, queue)
            # Finishes a commit that is under way: this client does not wait.
            deque(broker.commits.until_released(channel.client, (queue,)), maxlen=0)
    messages = sum(messages_of(queue) for queue in queues)
    if if_empty and messages:
        raise ShardClashError(
            f"the shards of exchange '{name}' in vhost '{vhost.name}' hold {messages} messages"
        )
    for shards in _batches(found):
        deletes = [QueueDelete(queue=found.queue_name(shard), no_wait=True) for shard in shards]
        await _all_done(channel, [partial(delete_queue_now, channel, each) for each in deletes])
    delete = ExchangeDelete(exchange=name, no_wait=True)
    await _all_done(channel, [partial(delete_exchange, channel, delete)])
    return found, messages


def find_shards(vhost: VirtualHost, name: str) -> ShardSet:
    """Return a set of shards by the name of its exchange.

    Raises:
        NoSuchShardsError: There is no such exchange, or it has no shards.
    """
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise NoSuchShardsError(f"no exchange '{name}' in vhost '{vhost.name}'")
    found = shard_set(exchange)
    if found is None:
        raise NoSuchShardsError(f"exchange '{name}' in vhost '{vhost.name}' has no shards")
    return found


async def _bind(channel: Channel, wanted: ShardSet, first_number: int) -> int:
    """Bind all queues, including bound ones; return how many were not bound before."""
    vhost = channel.virtual_host
    exchange = vhost.exchanges.get(wanted.exchange)
    queues = [queue for queue in wanted.queues(vhost) if queue is not None]
    if exchange is None or len(queues) < wanted.count:
        raise ShardClashError(
            f"shards of exchange '{wanted.exchange}' were deleted during the command; run it again"
        )
    bound_before = len(bound_queues(exchange))
    await _all_done(
        channel,
        [
            partial(make_binding, channel, exchange, queue, WEIGHT, {}, first_number + shard)
            for shard, queue in enumerate(queues)
        ],
    )
    return wanted.count - bound_before


def _batches(shards: ShardSet) -> Iterator[range]:
    for start in range(0, shards.count, QUEUES_PER_TURN):
        yield range(start, min(start + QUEUES_PER_TURN, shards.count))


async def _all_done(channel: Channel, changes: Iterable[Callable[[], Operation[Any]]]) -> None:
    """Start all changes in this turn; return when all have ended.

    Raises the error of the first change that failed. If a change cannot start, it starts none
    of those after it.
    """
    begun: list[Awaitable[object]] = []
    refusal: AmqpError | None = None
    for begin in changes:
        try:
            change = begin()
        except AmqpError as error:
            refusal = error
            break
        if not isinstance(change, Applied):
            begun.append(_taken(channel, change))
        elif change.durable is not None:
            begun.append(change.durable)
    for end in await asyncio.gather(*begun, return_exceptions=True):
        if isinstance(end, BaseException):
            raise end
    if refusal is not None:
        raise refusal


async def _taken(channel: Channel, steps: AppliedSteps[Any]) -> None:
    """Take the steps of a change in turns; return when it is durable."""
    found: list[Applied[Any] | None] = []

    def and_keep() -> Iterator[None]:
        found.append((yield from steps))

    await done_in_turns(channel.broker.turn, channel.client.task_queue, and_keep(), _WHO)
    (applied,) = found
    if applied is not None and applied.durable is not None:
        await applied.durable
