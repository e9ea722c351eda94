"""basic.*: consuming, getting, and acknowledging deliveries."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from secrets import token_bytes
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.channel import MANY_RUNS
from amqp_server.broker.consuming.consumer import Consumer
from amqp_server.broker.consuming.direct_reply import DIRECT_REPLY_TO
from amqp_server.broker.declaring.names import find_named_queue, queue_name
from amqp_server.broker.events.channel_events import report_consumer_created
from amqp_server.broker.stream import Stream
from amqp_server.broker.subscriptions.browsing import browses
from amqp_server.broker.subscriptions.finding import find_source, needs_search, search_source
from amqp_server.broker.transactions.transaction import Outcome
from amqp_server.connections.handlers.consumer_arguments import (
    check_browser,
    check_consumer_arguments,
    consumer_priority,
    consumer_timeout_ms,
)
from amqp_server.connections.handlers.direct_reply import consume_replies
from amqp_server.connections.handlers.handler import Handlers
from amqp_server.connections.handlers.stream_consumers import check_stream_consumer
from amqp_server.operations.deferring import when_up_to_date
from amqp_server.operations.getting import get_message
from amqp_server.protocol.errors import (
    AccessRefused,
    NotAllowed,
    NotFound,
    NotImplementedAmqp,
    PreconditionFailed,
)
from amqp_server.protocol.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.source import Source
    from amqp_server.broker.consuming.unacked import UnackedRun
    from amqp_server.broker.queue import Queue
    from amqp_server.connections.handlers.handler import MethodSteps, Waiting
    from amqp_server.protocol.methods import Method

_HIGHEST_TAG = (1 << 62) - 1


def qos(channel: Channel, method: BasicQos) -> None:
    """Set the prefetch limit: of the channel with `global`, else of consumers that start later.

    As in RabbitMQ (`basic.qos` in `rabbit_channel`), a limit without `global` removes the limit of
    the channel; a limit with `global` leaves the other unchanged. For some client libraries it also
    changes running consumers (`amqp_server.connections.session.session_login`).
    """
    if method.prefetch_size != 0:
        raise NotImplementedAmqp(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.set_prefetch_global(method.prefetch_count)
    else:
        channel.prefetch = method.prefetch_count
        channel.set_prefetch_global(0)
        if channel.client.qos_reaches_consumers:
            for consumer in channel.consumers.values():
                consumer.change_prefetch(method.prefetch_count)
    channel.send(BasicQosOk())
    channel.wake_consumers()


def consume(channel: Channel, method: BasicConsume) -> Awaitable[Method | None] | None:
    """Start a consumer of a queue."""
    if method.queue == DIRECT_REPLY_TO:
        consume_replies(channel, method)
        return None
    tag = (
        method.consumer_tag
        or "amq.ctag-" + urlsafe_b64encode(token_bytes(16)).rstrip(b"=").decode()
    )
    if tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    name = queue_name(channel, method.queue)
    channel.client.rights.require(Right.READ, "queue", name)
    queue = find_named_queue(channel, name)
    consumers_max = channel.broker.config.limits.consumers_per_channel_max
    if len(channel.consumers) >= consumers_max:
        raise NotAllowed(
            f"cannot consume from queue '{queue.name}': the limit of consumers on one channel "
            f"({consumers_max}) is reached"
        )
    check_consumer_arguments(queue, method.arguments)
    is_browser = browses(method.arguments)
    if is_browser:
        check_browser(queue, method)
    else:
        _check_not_taken(queue, exclusive=method.exclusive)
        if isinstance(queue, Stream):
            check_stream_consumer(channel, queue, method)
    if needs_search(queue, method.arguments):
        return _consume_when_found(channel, queue, tag, method)
    # Older messages go to the consumers that were there before.
    if not is_browser and not queue.bring_up_to_date():
        return when_up_to_date(queue, channel, consume, method)
    _begin(channel, queue, find_source(queue, method.arguments), tag, method)
    return None


async def _consume_when_found(
    channel: Channel, queue: Queue, tag: str, method: BasicConsume
) -> None:
    """Start a consumer once its position in the log is found."""
    begin = await search_source(queue, method.arguments, channel.broker.write_checkpoint)
    if begin is None:
        raise NotFound(f"no queue '{queue.name}' in vhost '{queue.virtual_host.name}'")
    if not channel.is_closed:
        _begin(channel, queue, begin(), tag, method)


def _begin(channel: Channel, queue: Queue, source: Source, tag: str, method: BasicConsume) -> None:
    consumer = Consumer(
        tag,
        channel,
        queue,
        channel.counters.browsed
        if browses(method.arguments)
        else channel.counters.deliveries_of(queue),
        source=source,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        prefetch=channel.prefetch,
        priority=consumer_priority(method.arguments),
        timeout_ms=consumer_timeout_ms(
            method.arguments, queue, channel.broker.config.consumer_timeout_seconds
        ),
        arguments=method.arguments or None,
    )
    channel.consumers[tag] = consumer
    if not method.no_wait:
        channel.send(BasicConsumeOk(consumer_tag=tag))
    source.add_consumer(consumer)
    report_consumer_created(channel, consumer, method.arguments)


def _check_not_taken(queue: Queue, *, exclusive: bool) -> None:
    """Check that the queue may have another consumer.

    Raises:
        AccessRefused: A consumer of the queue is exclusive, or the new one cannot be.
    """
    can_be_exclusive = len(queue.consumers) == 0 and not queue.settings.single_active_consumer
    if queue.consumers.has_exclusive or (exclusive and not can_be_exclusive):
        raise AccessRefused(
            f"queue '{queue.name}' in vhost '{queue.virtual_host.name}' in exclusive use"
        )


def cancel(channel: Channel, method: BasicCancel) -> Waiting | MethodSteps:
    """End a consumer; its unacked messages stay with the channel."""
    consumer = channel.consumers.get(method.consumer_tag)
    # The consumer still gets what was published before its end, as in RabbitMQ.
    if consumer is not None:
        if not consumer.queue.bring_up_to_date():
            return when_up_to_date(consumer.queue, channel, cancel_now, method)
        if consumer.queue.delivers_on and consumer.credit:
            return _cancel_when_served(channel, consumer, method)
    return cancel_now(channel, method)


def _cancel_when_served(channel: Channel, consumer: Consumer, method: BasicCancel) -> MethodSteps:
    """Deliver what is ready already, a slice at a time, and end the consumer."""
    queue = consumer.queue
    # A step may also do no more than put consumers aside that can take nothing.
    left = queue.ready_count + len(queue.consumers)
    while left > 0 and queue.delivers_on and consumer.credit and not queue.is_deleted:
        yield
        # Counted, because a publisher may be as fast as the deliveries.
        before = queue.ready_count
        queue.bring_up_to_date()
        left -= max(1, before - queue.ready_count)
    return None if channel.is_closed else cancel_now(channel, method)


def cancel_now(channel: Channel, method: BasicCancel) -> Awaitable[Method | None] | None:
    """End a consumer without a look at the messages that it could get."""
    consumer = channel.consumers.get(method.consumer_tag)
    if not method.no_wait:
        channel.send(BasicCancelOk(consumer_tag=method.consumer_tag))
    if consumer is not None:
        # The queue may be deleted with it; notices of that on this channel follow the reply.
        channel.remove_consumer(consumer)
    elif channel.reply_consumer is not None and channel.reply_consumer.tag == method.consumer_tag:
        channel.remove_reply_consumer()
    return None


def ack(channel: Channel, method: BasicAck) -> Iterator[None] | None:
    """Acknowledge deliveries with tag 0; the connection handles other tags in runs."""
    return _resolve(channel, Outcome.ACKNOWLEDGED, method.delivery_tag, multiple=method.multiple)


def nack(channel: Channel, method: BasicNack) -> Iterator[None] | None:
    """Requeue deliveries, or reject them."""
    outcome = Outcome.REQUEUED if method.requeue else Outcome.REJECTED
    return _resolve(channel, outcome, method.delivery_tag, multiple=method.multiple)


def _resolve(
    channel: Channel, outcome: Outcome, tag: int, *, multiple: bool
) -> Iterator[None] | None:
    if multiple and tag <= _HIGHEST_TAG and channel.unacked.run_count > MANY_RUNS:
        return channel.resolve_up_to(outcome, tag or None)
    return channel.resolve(outcome, _take(channel, tag, multiple=multiple))


def reject(channel: Channel, method: BasicReject) -> None:
    """Requeue one delivery, or reject it."""
    runs = _take(channel, method.delivery_tag, multiple=False)
    channel.resolve(Outcome.REQUEUED if method.requeue else Outcome.REJECTED, runs)


def recover(channel: Channel, method: BasicRecover) -> Iterator[None]:
    """Requeue all unacked messages of the channel."""
    yield from recover_async(channel, method)
    channel.send(BasicRecoverOk())


def recover_async(channel: Channel, method: BasicRecover | BasicRecoverAsync) -> Iterator[None]:
    """Requeue all unacked messages of the channel, without a reply."""
    if not method.requeue:
        raise NotImplementedAmqp("requeue=false")
    yield from channel.requeue_unacked()


def _take(channel: Channel, tag: int, *, multiple: bool) -> list[UnackedRun]:
    if tag == 0 and multiple:
        return channel.unacked.take_all()
    if tag == 0 or tag > _HIGHEST_TAG:
        raise PreconditionFailed(f"unknown delivery tag {tag}")
    return channel.take_unacked(0 if multiple else tag, tag)


BASIC_HANDLERS: Handlers = {
    BasicQos: qos,
    BasicConsume: consume,
    BasicCancel: cancel,
    BasicGet: get_message,
    BasicAck: ack,
    BasicNack: nack,
    BasicReject: reject,
    BasicRecover: recover,
    BasicRecoverAsync: recover_async,
}
