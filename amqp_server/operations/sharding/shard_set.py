"""A set of shards: its names, its declares, and how its exchange records it.

It consists of an exchange of type `x-consistent-hash` with the argument `x-shards` = N, and the
queues `<exchange>-0` to `<exchange>-<N-1>`, each bound once with the weight 1. The numbers of the
bindings grow with those of the shards, so that the bucket of a key is its shard
(`appendlog.sharding`). The argument distinguishes an incomplete set from a complete one. An
exchange that a client declared without it has a set if its bindings are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.broker.stream import Stream
from amqp_server.protocol.field_comparison import INTEGER_KINDS
from amqp_server.protocol.field_values import table_of
from amqp_server.protocol.methods import ExchangeDeclare, QueueDeclare

if TYPE_CHECKING:
    from amqp_server.broker.binding import Binding
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.tables import Table

HASH_KIND: Final = "x-consistent-hash"
SHARDS: Final = "x-shards"
"""Argument of the exchange: its number of shards. It does not affect routing."""
WEIGHT: Final = "1"


@dataclass(frozen=True, slots=True)
class ShardSet:
    """One set of shards, existing or wanted.

    Attributes:
        exchange: Name of the exchange, from which the names of the queues derive.
        count: Number of shards, at least 1.
    """

    exchange: str
    count: int

    def queue_name(self, shard: int) -> str:
        """Return the name of a shard's queue."""
        return f"{self.exchange}-{shard}"

    def queues(self, vhost: VirtualHost) -> list[Queue | None]:
        """Return the queues by shard; None for a missing one."""
        return [vhost.queues.get(self.queue_name(shard)) for shard in range(self.count)]

    def exchange_declare(self) -> ExchangeDeclare:
        """Return the declare of the exchange."""
        return ExchangeDeclare(
            exchange=self.exchange,
            type=HASH_KIND,
            durable=True,
            no_wait=True,
            arguments=table_of({SHARDS: self.count}),
        )

    def queue_declare(self, shard: int, arguments: Table) -> QueueDeclare:
        """Return the declare of a shard's queue."""
        return QueueDeclare(
            queue=self.queue_name(shard), durable=True, no_wait=True, arguments=arguments
        )


def shard_set(exchange: Exchange) -> ShardSet | None:
    """Return the set of an exchange, complete or not; None if it has none."""
    if exchange.type != HASH_KIND:
        return None
    noted = exchange.arguments.get(SHARDS)
    if noted is not None and noted.kind in INTEGER_KINDS:
        count = noted.value
        assert isinstance(count, int), "an integer kind must have an integer value"
    else:
        count = len(exchange.bindings)
        shards = ShardSet(exchange.name, count)
        if bound_queues(exchange) != {shards.queue_name(shard) for shard in range(count)}:
            return None
    return ShardSet(exchange.name, count) if count > 0 else None


def bound_queues(exchange: Exchange) -> set[str]:
    """Return the names of the queues that are bound to an exchange like shards."""
    bindings = exchange.bindings.values()
    return {each.destination.name for each in bindings if is_of_shard(each)}


def is_of_shard(binding: Binding) -> bool:
    """Return whether a binding looks like that of a shard."""
    is_plain = binding.routing_key == WEIGHT and not binding.arguments
    return is_plain and binding.identity.kind == "queue"


def messages_of(queue: Queue) -> int:
    """Return how many messages a queue holds: all in a stream's log, or the unsettled ones."""
    store = queue.store
    settlement = queue.settlement
    if isinstance(queue, Stream):
        return store.end_offset - store.log.log_start_offset
    return store.end_offset - settlement.ack_floor - settlement.settled_above_floor
