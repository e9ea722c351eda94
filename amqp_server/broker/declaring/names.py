"""Finds the objects that a method names, and checks names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.deletion import OWNER_GONE
from amqp_server.protocol.errors import AccessRefused, NotFound, ResourceLocked

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost

_STRIPPED = str.maketrans("", "", "\r\n")


def clean_name(name: str) -> str:
    """Return a name without CR and LF, as RabbitMQ stores it."""
    return name.translate(_STRIPPED)


def is_reserved(name: str) -> bool:
    """Return whether only the server may create objects with this name."""
    return name.startswith("amq.")


def find_exchange(vhost: VirtualHost, name: str) -> Exchange:
    """Return an exchange by name.

    Raises:
        NotFound: There is no such exchange.
    """
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise NotFound(f"no exchange '{name}' in vhost '{vhost.name}'")
    return exchange


def queue_name(channel: Channel, name: str) -> str:
    """Return the name; for an empty one, that of the last queue that the channel declared.

    Raises:
        NotFound: The name is empty, and the channel has declared no queue.
    """
    if name:
        return clean_name(name)
    if channel.last_queue_name is None:
        raise NotFound("no previously declared queue")
    return channel.last_queue_name


def find_named_queue(channel: Channel, name: str) -> Queue:
    """Return a queue that this client may use; an empty name has no special meaning.

    Raises:
        NotFound: There is no such queue.
        ResourceLocked: The queue is exclusive to another connection.
    """
    vhost = channel.virtual_host
    queue = queue_of_name(channel, name)
    if queue is None:
        check_not_damaged(vhost, name)
        raise NotFound(f"no queue '{name}' in vhost '{vhost.name}'")
    if queue.exclusive_owner is not None:
        check_not_locked(channel, queue)
    return queue


def queue_of_name(channel: Channel, name: str) -> Queue | None:
    """Return a queue of the channel's virtual host, or None.

    An exclusive queue whose owner has gone counts as deleted, although it may wait for its turn.
    """
    vhost = channel.virtual_host
    queue = vhost.queues.get(name)
    if (
        queue is None
        or queue.exclusive_owner is None
        or vhost.is_deleted
        or not channel.broker.is_orphaned(queue)
    ):
        return queue
    channel.broker.delete_unused(queue, OWNER_GONE)
    return None


def check_not_damaged(vhost: VirtualHost, name: str) -> None:
    """Check that a missing queue is not one that the start could not recover.

    Raises:
        NotFound: It is such a queue; RabbitMQ has the same code for a queue that is down.
    """
    if vhost.damaged.is_queue(name):
        raise _damaged("queue", vhost, name)


def check_queue_name_is_free(vhost: VirtualHost, name: str, *, is_saved: bool) -> None:
    """Check that a new queue does not have the name of one that the start could not recover.

    Args:
        vhost: Virtual host of the new queue.
        name: Name of the new queue.
        is_saved: Whether its definition goes to the disk. Then it must not replace a definition
            there that could not be read.

    Raises:
        NotFound: A queue with this name could not be recovered.
    """
    check_not_damaged(vhost, name)
    if is_saved and vhost.damaged.may_be_queue(name):
        raise _damaged("queue", vhost, name)


def check_exchange_name_is_free(vhost: VirtualHost, name: str, *, is_saved: bool) -> None:
    """Check that a new exchange does not replace one that the start could not recover.

    Args:
        vhost: Virtual host of the new exchange.
        name: Name of the new exchange.
        is_saved: Whether its definition goes to the disk.

    Raises:
        NotFound: An exchange with this name could not be recovered.
    """
    if is_saved and vhost.damaged.may_be_exchange(name):
        raise _damaged("exchange", vhost, name)


def _damaged(kind: str, vhost: VirtualHost, name: str) -> NotFound:
    return NotFound(
        f"{kind} '{name}' in vhost '{vhost.name}' could not be recovered; "
        "its files are kept, see the server's log"
    )


def check_not_locked(channel: Channel, queue: Queue) -> None:
    """Check that the queue is not exclusive to another connection.

    Raises:
        ResourceLocked: It is.
    """
    if queue.exclusive_owner is not None and queue.exclusive_owner is not channel.client:
        raise locked(queue)


def locked(queue: Queue) -> ResourceLocked:
    """Return the error for a queue that is exclusive to another connection."""
    return ResourceLocked(
        f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost "
        f"'{queue.virtual_host.name}'. It could be originally declared on another connection or "
        "the exclusive property value does not match that of the original declaration."
    )


def refuse_default(name: str) -> None:
    """Refuse operations on the default exchange.

    Raises:
        AccessRefused: The name is empty.
    """
    if name == "":
        raise AccessRefused("operation not permitted on the default exchange")
