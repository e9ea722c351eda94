"""queue.*: declare, bind, unbind, purge and delete queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.handlers.handler import Handlers
from amqp_server.connections.handlers.replies import reply_to
from amqp_server.operations.binding import bind_queue, unbind_queue
from amqp_server.operations.queue_declaring import declare_queue
from amqp_server.operations.queue_deleting import delete_queue
from amqp_server.operations.queue_purging import purge_queue
from amqp_server.protocol.methods import (
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.connections.handlers.handler import Outcome
    from amqp_server.operations.queue_declaring import DeclaredQueue
    from amqp_server.operations.queue_purging import Purged


def declare(channel: Channel, method: QueueDeclare) -> Outcome:
    """Create a queue, or check that the existing one has the same properties."""

    def reply(queue: DeclaredQueue) -> QueueDeclareOk | None:
        return None if method.no_wait else declare_ok(queue)

    return reply_to(channel, declare_queue(channel, method), reply)


def declare_ok(queue: DeclaredQueue) -> QueueDeclareOk:
    """Return the reply to a declare of a queue that is up to date."""
    return QueueDeclareOk(
        queue=queue.name, message_count=queue.ready_count, consumer_count=queue.consumer_count
    )


def bind(channel: Channel, method: QueueBind) -> Outcome:
    """Bind a queue to an exchange."""
    reply = None if method.no_wait else QueueBindOk()
    return reply_to(channel, bind_queue(channel, method), lambda _: reply)


def unbind(channel: Channel, method: QueueUnbind) -> Outcome:
    """Unbind a queue from an exchange."""
    return reply_to(channel, unbind_queue(channel, method), lambda _: QueueUnbindOk())


def purge(channel: Channel, method: QueuePurge) -> Outcome:
    """Drop the ready messages of a queue."""

    def reply(purged: Purged) -> QueuePurgeOk | None:
        return None if method.no_wait else QueuePurgeOk(message_count=purged.messages)

    return reply_to(channel, purge_queue(channel, method), reply)


def delete(channel: Channel, method: QueueDelete) -> Outcome:
    """Delete a queue."""

    def reply(messages: int) -> QueueDeleteOk | None:
        return None if method.no_wait else QueueDeleteOk(message_count=messages)

    return reply_to(channel, delete_queue(channel, method), reply)


QUEUE_HANDLERS: Handlers = {
    QueueDeclare: declare,
    QueueBind: bind,
    QueueUnbind: unbind,
    QueuePurge: purge,
    QueueDelete: delete,
}
