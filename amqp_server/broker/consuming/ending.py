"""Consumers end because what they take from is gone, and are told if they want to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.methods import BasicCancel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.queue import Queue


def consumers_of(queue: Queue) -> list[Consumer]:
    """Return all consumers of a queue, those too that only look."""
    return [*queue.consumers, *queue.subscriptions.consumers()]


def end_consumers(consumers: Iterable[Consumer]) -> None:
    """Take consumers from their channels and sources; what they have unacked stays with them.

    Args:
        consumers: Not a view of what they are taken from.
    """
    for consumer in consumers:
        _end(consumer)
        if consumer.channel.client.notifies_cancel and not consumer.channel.is_closed:
            consumer.channel.send(_notice(consumer))


def end_consumers_quietly(consumers: Iterable[Consumer]) -> list[BasicCancel]:
    """End consumers as `end_consumers` does, and return what their clients are still to be sent.

    Args:
        consumers: Not a view of what they are taken from.
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
