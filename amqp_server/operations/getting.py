"""Gets single messages, without a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.declaring.names import find_named_queue, queue_name
from amqp_server.broker.job import done_in_turns
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.stream import refuse_stream
from amqp_server.operations.deferring import when_up_to_date
from amqp_server.protocol.errors import ResourceLocked
from amqp_server.protocol.methods import BasicGetEmpty

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.orders.ready_ranges import ReadyRange
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.protocol.large_delivery import LargeMessage
    from amqp_server.protocol.methods import BasicGet


def get_message(channel: Channel, method: BasicGet) -> Awaitable[None] | None:
    """Deliver one message on the channel, or reply that there is none.

    Returns:
        What ends when that is done; None if it is.

    Raises:
        AmqpError: The client may not, or the queue is missing, another client's, a stream, or one
            of which only its active consumer gets messages.
    """
    name = queue_name(channel, method.queue)
    channel.client.rights.require(Right.READ, "queue", name)
    queue = find_named_queue(channel, name)
    refuse_stream(queue, "basic.get")
    if queue.settings.single_active_consumer:
        _check_may_get(queue)
    if queue.expiry_timer is not None:
        queue.record_use()
    if not queue.bring_up_to_date():
        return when_up_to_date(queue, channel, get_message, method)
    if queue.loading.is_loading:
        return _get_when_loaded(channel, queue, method)
    ready = queue.ready.peek()
    if ready is None or queue.is_paused:
        _send_empty(channel, queue)
        return None
    message = queue.store.read_run(ready.start, ready.start + 1)
    if message:
        return _get_ok(channel, queue, ready, message, no_ack=method.no_ack)
    return _get_when_read(channel, queue, method)


def _check_may_get(queue: Queue) -> None:
    """Check that clients other than the active consumer of a queue may take messages.

    Raises:
        ResourceLocked: It is a quorum queue.
    """
    if queue.settings.type is QueueType.QUORUM:
        raise ResourceLocked(
            f"cannot obtain access to locked queue '{queue.name}' in vhost "
            f"'{queue.virtual_host.name}'. basic.get operations are not supported by quorum "
            "queues with single active consumer"
        )


async def _get_when_loaded(channel: Channel, queue: Queue, method: BasicGet) -> None:
    """Wait until the messages are loaded: then it is known which is first and which expired."""
    await queue.loading.until_loaded()
    if not queue.loading.is_loading:
        await queue.until_up_to_date()
        await _get_when_read(channel, queue, method)
    elif not channel.is_closed:
        _send_empty(channel, queue)


async def _get_when_read(channel: Channel, queue: Queue, method: BasicGet) -> None:
    """Wait for the log; another consumer may take the message during that time."""
    while not channel.is_closed and not queue.is_deleted and not queue.is_paused:
        if queue.is_at_work and not queue.is_draining:
            # Earlier messages are returning.
            await queue.until_up_to_date()
            continue
        ready = queue.ready.peek()
        if ready is None:
            break
        message = queue.store.read_run(ready.start, ready.start + 1)
        if message:
            traced = _get_ok(channel, queue, ready, message, no_ack=method.no_ack)
            if traced is not None:
                await traced
            return
        await queue.store.until_read()
    if not channel.is_closed:
        _send_empty(channel, queue)


def _send_empty(channel: Channel, queue: Queue) -> None:
    channel.counters.deliveries_of(queue).get_empty += 1
    queue.mark_changed()
    channel.send(BasicGetEmpty())


def _get_ok(
    channel: Channel, queue: Queue, ready: ReadyRange, message: Messages, *, no_ack: bool
) -> Awaitable[None] | None:
    """Send the first message of a queue; return what waits until it is traced, if it is.

    Args:
        channel: Channel of the client.
        queue: Queue of the message.
        ready: What `queue.ready.peek()` has just returned.
        message: Its first message, alone.
        no_ack: Whether the message is settled at once.
    """
    delivered: Messages | LargeMessage = message
    if ready.redelivered:
        delivered = queue.as_delivered(ready.start, message, redelivered=True)
    # Take the message only when it can be sent. A message that is taken and then lost would be
    # neither ready nor unacked (I8).
    octets = channel.encode_get_ok(
        delivered, redelivered=ready.redelivered, left=len(queue.ready) - 1
    )
    taken = queue.ready.take(1)
    channel.record_get(queue, taken.start, no_ack=no_ack, redelivered=taken.redelivered)
    channel.client.write(octets)
    if channel.virtual_host.firehose is None:
        return None
    steps = channel.traces(queue.name, delivered, redelivered=taken.redelivered)
    return done_in_turns(channel.broker.turn, channel.client.task_queue, steps, "trace")
