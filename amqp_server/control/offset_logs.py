"""Finds the logs of an `offsets` command: one queue, or all shards of an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.queue import Queue
from amqp_server.control.browse import find_queue
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.operations.sharding.shard_set import HASH_KIND, shard_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.broker.virtual_host import VirtualHost


class GroupLog(NamedTuple):
    """A queue and its shard number; `shard` is None if the command named the queue itself."""

    shard: int | None
    queue: Queue


def find_logs(broker: Broker, vhost: str, queue: str, shards: str) -> list[GroupLog]:
    """Return the logs of a command, shards in the order of their numbers.

    Raises:
        ControlError: A name does not exist, or not exactly one of queue and exchange is given.
    """
    if bool(queue) == bool(shards):
        reason = "expected either a queue or an exchange with shards"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if queue:
        return [GroupLog(None, find_queue(broker, vhost, queue))]
    host = broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    exchange = host.exchanges.get(shards)
    if exchange is None:
        reason = f"no exchange '{shards}' in vhost '{vhost}'"
        raise ControlError(ErrorKind.NOT_FOUND, reason)
    return _shards(exchange, host)


def find_streams(broker: Broker, vhost: str) -> list[GroupLog]:
    """Return all streams of a virtual host, by name.

    Raises:
        ControlError: The virtual host does not exist.
    """
    host = broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    queues = sorted(host.queues.values(), key=lambda queue: queue.name)
    return [GroupLog(None, queue) for queue in queues if queue.groups is not None]


def _shards(exchange: Exchange, host: VirtualHost) -> list[GroupLog]:
    """Return the queues over which an exchange distributes its keys, by shard number.

    Raises:
        ControlError: The exchange has no shards, or one is missing.
    """
    name = f"exchange '{exchange.name}' in vhost '{host.name}'"
    if exchange.type != HASH_KIND:
        reason = f"{name} is of type '{exchange.type}': only one of '{HASH_KIND}' has shards"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    known = shard_set(exchange)
    if known is not None:
        places = []
        for shard, queue in enumerate(known.queues(host)):
            if queue is None:
                reason = f"{name} lacks shard {shard}: queue '{known.queue_name(shard)}'"
                raise ControlError(ErrorKind.NOT_FOUND, reason)
            places.append(GroupLog(shard, queue))
        return places
    # `shards create` did not make this exchange: its buckets follow the order of its bindings.
    bindings = sorted(exchange.bindings.values(), key=lambda each: each.number)
    queues = [each.destination for each in bindings if isinstance(each.destination, Queue)]
    if not queues:
        raise ControlError(ErrorKind.NOT_FOUND, f"{name} has no queues")
    return [GroupLog(shard, queue) for shard, queue in enumerate(queues)]


def groups_of(queue: Queue) -> Groups:
    """Return the consumer groups of a stream.

    Raises:
        ControlError: The queue is no stream.
    """
    if queue.groups is None:
        reason = f"{log_name(queue)} is not a stream, so it has no groups"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return queue.groups


def check_ordinary(queue: Queue) -> None:
    """Check that a queue is no stream.

    Raises:
        ControlError: It is a stream; the text names its groups.
    """
    if queue.groups is not None:
        names = queue.groups.names()
        known = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if names[5:] else "")
        reason = f"{log_name(queue)} is a stream: a group is expected; it has {known or 'none yet'}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)


def check_known(logs: Sequence[GroupLog], group: str) -> None:
    """Check that at least one of the logs knows a group.

    Raises:
        UnknownGroupError: No log knows it.
    """
    groups = [groups_of(log.queue) for log in logs]
    if not any(group in each for each in groups):
        groups[0].get(group)


def log_name(queue: Queue) -> str:
    """Return the name of a queue for error texts."""
    return f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
