"""Ends consumers whose source is gone, and notifies their clients if they want that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.methods import BasicCancel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.queue import Queue


def consumers_of(queue: Queue) -> list[Consumer]:
    """Return all consumers of a queue, including those of its subscriptions."""
    return [*queue.consumers, *queue.subscriptions.consumers()]


def end_consumers(consumers: Iterable[Consumer]) -> None:
    """Remove consumers from their channels and sources; their unacked messages stay unacked.

    Args:
        consumers: Consumers to end; not a view of a collection that this call changes.
    """
    for consumer in consumers:
        _end(consumer)
        if consumer.channel.client.notifies_cancel and not consumer.channel.is_closed:
            consumer.channel.send(_notice(consumer))


def end_consumers_quietly(consumers: Iterable[Consumer]) -> list[BasicCancel]:
    """End consumers like `end_consumers`, but return the notices instead of sending them.

    Args:
        consumers: Consumers to end; not a view of a collection that this call changes.
    """
    notices: list[BasicCancel] = []
    for consumer in consumers:
        _end(consumer)
        if consumer.channel.client.notifies_cancel:
            notices.append(_notice(consumer))
    return notices


def _end(consumer: Consumer) -> None:
    del consumer.channel.consumers[consumer.tag]
    consumer.source.consumers.remove(consumer)


def _notice(consumer: Consumer) -> BasicCancel:
    return BasicCancel(consumer_tag=consumer.tag, no_wait=True)
