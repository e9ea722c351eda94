"""Which logs a command of groups speaks of: one queue, or all shards of an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.queue import Queue
from amqp_server.broker.sharding.shard_set import HASH_KIND, shard_set
from amqp_server.control.browse import find_queue
from amqp_server.control.messages import ControlError, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.subscriptions.groups import Groups
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.server import Server


class GroupLog(NamedTuple):
    """One queue; `shard` is None if it was named itself."""

    shard: int | None
    queue: Queue


def find_logs(server: Server, vhost: str, queue: str, shards: str) -> list[GroupLog]:
    """Return the logs that a command speaks of, shards in their order.

    Raises:
        ControlError: There are none of these names, or both kinds are named.
    """
    if bool(queue) == bool(shards):
        reason = "one of a queue and an exchange of shards is expected"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    if queue:
        return [GroupLog(None, find_queue(server, vhost, queue))]
    host = server.broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    exchange = host.exchanges.get(shards)
    if exchange is None:
        reason = f"no exchange '{shards}' in vhost '{vhost}'"
        raise ControlError(ErrorKind.NOT_FOUND, reason)
    return _shards(exchange, host)


def find_streams(server: Server, vhost: str) -> list[GroupLog]:
    """Return all streams of a virtual host, by name.

    Raises:
        ControlError: There is no such virtual host.
    """
    host = server.broker.vhosts.get(vhost)
    if host is None:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    queues = sorted(host.queues.values(), key=lambda queue: queue.name)
    return [GroupLog(None, queue) for queue in queues if queue.groups is not None]


def _shards(exchange: Exchange, host: VirtualHost) -> list[GroupLog]:
    """Return the queues that an exchange spreads its keys over, by shard number.

    Raises:
        ControlError: It spreads none, or a shard is missing.
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
    # Of another making: the order of the bindings is that of the buckets.
    bindings = sorted(exchange.bindings.values(), key=lambda each: each.number)
    queues = [each.destination for each in bindings if isinstance(each.destination, Queue)]
    if not queues:
        raise ControlError(ErrorKind.NOT_FOUND, f"{name} has no queues")
    return [GroupLog(shard, queue) for shard, queue in enumerate(queues)]


def groups_of(queue: Queue) -> Groups:
    """Return the groups of a stream.

    Raises:
        ControlError: It is none.
    """
    if queue.groups is None:
        reason = f"{log_name(queue)} is no stream: it has no groups"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)
    return queue.groups


def check_ordinary(queue: Queue) -> None:
    """Check that a queue is no stream.

    Raises:
        ControlError: It is; the text names its groups.
    """
    if queue.groups is not None:
        names = queue.groups.names()
        known = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if names[5:] else "")
        reason = f"{log_name(queue)} is a stream: a group is expected; it has {known or 'none yet'}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)


def check_known(logs: Sequence[GroupLog], group: str) -> None:
    """Check that at least one of the logs knows a group.

    Raises:
        UnknownGroupError: None does.
    """
    groups = [groups_of(log.queue) for log in logs]
    if not any(group in each for each in groups):
        groups[0].get(group)


def log_name(queue: Queue) -> str:
    """Return what a queue is called, in words for people."""
    return f"queue '{queue.name}' in vhost '{queue.virtual_host.name}'"
