"""Ends consumers whose source is gone, and notifies their clients if they want that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.grants import UnansweredError
from amqp_server.access.permissions import Right
from amqp_server.protocol.methods import BasicCancel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.queue import Queue


def consumers_of(queue: Queue) -> list[Consumer]:
    """Return all consumers of a queue, including those of its subscriptions."""
    return queue.all_consumers()


def end_consumers(
    consumers: Iterable[Consumer], asking: Channel | None = None
) -> list[BasicCancel]:
    """Remove consumers from their channels and sources; their unacked messages stay unacked.

    Consumers that were removed before are skipped.

    Args:
        consumers: Consumers to end; not a view of a collection that this call changes.
        asking: Channel that has asked for it. The notices for its own consumers are not sent.

    Returns:
        These notices, for clients that want them.
    """
    unsent: list[BasicCancel] = []
    for consumer in consumers:
        channel = consumer.channel
        if channel.consumers.get(consumer.tag) is not consumer:
            continue
        _end(consumer)
        channel.report_ended(consumer)
        if not channel.client.notifies_cancel or channel.is_closed:
            continue
        if channel is asking:
            unsent.append(_notice(consumer))
        else:
            channel.send(_notice(consumer))
    return unsent


def end_refused_consumers(channel: Channel) -> Iterator[None]:
    """End the consumers of a channel whose user may not read their queues any more.

    As in RabbitMQ, when a new secret allows less than the one before. Each step looks at one
    consumer: there may be thousands, and the scopes of a token take up to 0.5 ms.
    """
    for consumer in list(channel.consumers.values()):
        if channel.consumers.get(consumer.tag) is not consumer:
            continue
        if channel.is_closed:
            return
        try:
            may_read = channel.client.rights.grants.allows(Right.READ, "queue", consumer.queue.name)
        except UnansweredError:
            # It is asked for again and again anyway: no secret says it.
            may_read = True
        if not may_read:
            if channel.client.notifies_cancel:
                channel.send(_notice(consumer))
            channel.remove_consumer(consumer)
        yield


def _end(consumer: Consumer) -> None:
    del consumer.channel.consumers[consumer.tag]
    consumer.source.consumers.remove(consumer)


def _notice(consumer: Consumer) -> BasicCancel:
    return BasicCancel(consumer_tag=consumer.tag, no_wait=True)
