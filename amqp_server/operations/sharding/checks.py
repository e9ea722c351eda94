"""Checks whether a set of shards can be created or completed, before anything is changed.

An incomplete set can be completed. An existing object that differs from the set's is a clash.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from amqp_server.broker.declaring.equivalence import (
    check_equivalent_exchange,
    check_equivalent_queue,
)
from amqp_server.broker.declaring.names import (
    check_exchange_name_is_free,
    check_not_locked,
    check_queue_name_is_free,
    clean_name,
    is_reserved,
)
from amqp_server.broker.declaring.object_limits import queues_max
from amqp_server.broker.declaring.queue_arguments import check_queue_arguments
from amqp_server.operations.sharding.errors import (
    ShardArgumentError,
    ShardClashError,
    ShardLimitError,
    ShardsError,
)
from amqp_server.operations.sharding.shard_set import is_of_shard, shard_set
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.strings import SHORTSTR_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.operations.sharding.shard_set import ShardSet
    from amqp_server.protocol.tables import Table


def check_shards(channel: Channel, wanted: ShardSet, arguments: Table) -> int:
    """Check that a set can be created beside the existing objects.

    Args:
        channel: Channel of the command, in the virtual host of the set.
        wanted: Set to create.
        arguments: Arguments of each queue.

    Returns:
        The number of shard 0's binding; the numbers of the others follow it.

    Raises:
        ShardsError: The set cannot be created.
    """
    vhost = channel.virtual_host
    _check_names(wanted, channel.broker.config.limits.shards_of_exchange_max)
    exchange = vhost.exchanges.get(wanted.exchange)
    with refused_as(ShardClashError):
        if exchange is None:
            check_exchange_name_is_free(vhost, wanted.exchange, is_saved=True)
        else:
            check_equivalent_exchange(vhost, exchange, wanted.exchange_declare())
    first_number = 0
    if exchange is not None:
        _check_hashed(exchange)
        _check_count(exchange, wanted)
        first_number = _first_number(exchange, wanted)
    _check_queues(channel, wanted, arguments)
    _check_room(channel, wanted, exchange)
    return first_number


@contextmanager
def refused_as(kind: type[ShardsError]) -> Iterator[None]:
    """Turn an AMQP error into an error of shards with the same text, without the code's name."""
    try:
        yield
    except AmqpError as error:
        raise kind(error.reply_text.partition(" - ")[2]) from error


def _check_names(wanted: ShardSet, count_max: int) -> None:
    """Check the names, because a declare would change them without an error."""
    name = wanted.exchange
    longest = wanted.queue_name(wanted.count - 1)
    if not 1 <= wanted.count <= count_max:
        raise ShardArgumentError(f"shards must be 1 to {count_max}, found {wanted.count}")
    if not name or clean_name(name) != name:
        raise ShardArgumentError("an exchange of shards needs a name without line breaks")
    if is_reserved(name):
        raise ShardArgumentError(f"exchange name '{name}' contains reserved prefix 'amq.*'")
    length = len(longest.encode("utf-8", "surrogateescape"))
    if length > SHORTSTR_BYTES_MAX:
        raise ShardArgumentError(
            f"name '{longest}' has {length} bytes, at most {SHORTSTR_BYTES_MAX} allowed"
        )


def _check_hashed(exchange: Exchange) -> None:
    if exchange.matcher.routes_singly:
        raise ShardClashError(
            f"exchange '{exchange.name}' hashes a header or property, expected the routing key"
        )


def _check_count(exchange: Exchange, wanted: ShardSet) -> None:
    """Check that the exchange has the wanted number of shards, or none yet."""
    found = shard_set(exchange)
    if found is not None and found.count != wanted.count:
        raise ShardClashError(
            f"exchange '{exchange.name}' has {found.count} shards, expected {wanted.count}: "
            "with another count most keys would belong to another shard"
        )


def _first_number(exchange: Exchange, wanted: ShardSet) -> int:
    """Return the number of shard 0's binding, derived from the existing bindings.

    Raises:
        ShardClashError: A binding belongs to no shard, or the bindings are in another order.
    """
    shards = {wanted.queue_name(shard): shard for shard in range(wanted.count)}
    firsts: set[int] = set()
    for binding in exchange.bindings.values():
        shard = shards.get(binding.destination.name)
        if shard is None or not is_of_shard(binding):
            raise ShardClashError(
                f"exchange '{exchange.name}' has a binding that belongs to none of its "
                f"{wanted.count} shards: to {binding.identity.kind} "
                f"'{binding.destination.name}', key '{binding.routing_key}'"
            )
        firsts.add(binding.number - shard)
    if len(firsts) > 1 or min(firsts, default=0) < 0:
        raise ShardClashError(
            f"the bindings of exchange '{exchange.name}' were not created in the order of its "
            "shards: unbind its queues and run the command again"
        )
    return firsts.pop() if firsts else exchange.next_binding_number


def _check_queues(channel: Channel, wanted: ShardSet, arguments: Table) -> None:
    vhost = channel.virtual_host
    with refused_as(ShardArgumentError):
        check_queue_arguments(wanted.queue_name(0), vhost.name, wanted.queue_declare(0, arguments))
    with refused_as(ShardClashError):
        for shard, queue in enumerate(wanted.queues(vhost)):
            if queue is None:
                check_queue_name_is_free(vhost, wanted.queue_name(shard), is_saved=True)
            else:
                check_not_locked(channel, queue)
                check_equivalent_queue(queue, wanted.queue_declare(shard, arguments))


def _check_room(channel: Channel, wanted: ShardSet, exchange: Exchange | None) -> None:
    vhost = channel.virtual_host
    limits = channel.broker.config.limits
    queues = sum(queue is None for queue in wanted.queues(vhost))
    bindings = wanted.count - len(exchange.bindings if exchange is not None else ())
    for kind, count, more, most in (
        ("exchange", len(vhost.exchanges), int(exchange is None), limits.exchanges_max),
        ("queue", len(vhost.queues), queues, queues_max(vhost, limits.queues_max)),
        ("binding", vhost.binding_count, bindings, limits.bindings_max),
    ):
        if count + more > most:
            raise ShardLimitError(_no_room(vhost, wanted, kind, most))


def _no_room(vhost: VirtualHost, wanted: ShardSet, kind: str, most: int) -> str:
    return (
        f"cannot create {wanted.count} shards of '{wanted.exchange}': "
        f"{kind} limit in vhost '{vhost.name}' ({most}) is reached"
    )
