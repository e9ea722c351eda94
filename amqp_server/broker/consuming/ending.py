"""Consumers end because what they take from is gone, and are told if they want to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.methods import BasicCancel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.consuming.consumer import Consumer


def end_consumers(consumers: Iterable[Consumer]) -> None:
    """Take consumers from their channels and sources; what they have unacked stays with them.

    Args:
        consumers: Not a view of what they are taken from.
    """
    for consumer in consumers:
        channel = consumer.channel
        del channel.consumers[consumer.tag]
        consumer.source.consumers.remove(consumer)
        if channel.client.notifies_cancel and not channel.is_closed:
            channel.send(BasicCancel(consumer_tag=consumer.tag, no_wait=True))
