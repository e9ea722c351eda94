"""Deletes queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.declaring.names import check_not_locked, queue_name, queue_of_name
from amqp_server.operations.applied import Applied, deleted
from amqp_server.operations.deferring import completed
from amqp_server.protocol.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.queue import Queue
    from amqp_server.operations.applied import AppliedSteps, Operation
    from amqp_server.protocol.methods import QueueDelete


def delete_queue(channel: Channel, method: QueueDelete) -> Operation[int]:
    """Delete a queue, after the commit that changes it; a missing one counts as deleted.

    Messages that have expired are gone first, in steps. The result is how many are left.

    Raises:
        AmqpError: The client may not, or the queue is not as `if_empty` and `if_unused` ask.
    """
    name = queue_name(channel, method.queue)
    channel.client.rights.require(Right.CONFIGURE, "queue", name)
    queue = queue_of_name(channel, name)
    if queue is not None:
        check_not_locked(channel, queue)
        if queue.is_in_commit or not queue.bring_up_to_date():
            return _delete_in_steps(channel, queue, method)
    return delete_queue_now(channel, method)


def _delete_in_steps(channel: Channel, queue: Queue, method: QueueDelete) -> AppliedSteps[int]:
    # Nothing that the client has sent later comes before, not even a declare.
    yield from channel.broker.commits.until_released(channel.client, (queue,))
    while not (queue.is_deleted or queue.is_at_work or queue.bring_up_to_date()):
        yield
    return (yield from completed(delete_queue_now(channel, method)))


def delete_queue_now(channel: Channel, method: QueueDelete) -> Operation[int]:
    """Delete a queue even if it is in a commit: the rest of the commit does not reach it.

    Messages that have expired since the queue was last up to date count as ready.

    Raises:
        AmqpError: The queue belongs to another client, or is not as `if_empty` and `if_unused` ask.
    """
    vhost = channel.virtual_host
    name = queue_name(channel, method.queue)
    queue = queue_of_name(channel, name)
    if queue is None:
        if not vhost.damaged.is_queue(name):
            # Another client's delete may still wait for the disk, and this reply must not come
            # earlier. Or the disk has refused an earlier delete.
            return Applied(0, channel.broker.definitions.make_queue_removed(vhost.name, name))
        if method.if_empty:
            raise PreconditionFailed(f"queue '{name}' in vhost '{vhost.name}' not empty")
        # RabbitMQ does the same with a queue that has crashed.
        return deleted(channel.broker.delete_damaged_queue(vhost, name, channel), 0)
    check_not_locked(channel, queue)
    where = f"queue '{queue.name}' in vhost '{vhost.name}'"
    if method.if_empty and queue.ready_count:
        raise PreconditionFailed(f"{where} not empty")
    if method.if_unused and queue.consumer_count:
        raise PreconditionFailed(f"{where} in use")
    count = queue.ready_count
    return deleted(channel.broker.delete_queue(queue, channel), count)
