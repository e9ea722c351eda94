"""Events of channels and consumers, which the audit log does not have: there are too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.protocol.tables import Table


def channel_name(channel: Channel) -> str:
    """Return the name of a channel, as RabbitMQ shows it."""
    return f"{channel.client.name} ({channel.number})"


def note_channel_created(channel: Channel) -> None:
    """Tell that a client has opened a channel."""
    events = channel.broker.events
    if events.is_followed:
        name = channel_name(channel)
        client = channel.client
        details = {"number": channel.number}
        events.note(
            "channel.created",
            client.actor,
            vhost=channel.virtual_host.name,
            object_name=name,
            details=details,
            facts=lambda: {
                **details,
                "pid": name,
                "name": name,
                "connection": client.name,
                "user": client.user,
                "vhost": channel.virtual_host.name,
            },
        )


def note_channel_closed(channel: Channel) -> None:
    """Tell that a channel is gone, with its consumers."""
    events = channel.broker.events
    if events.is_followed:
        name = channel_name(channel)
        events.note(
            "channel.closed",
            channel.client.actor,
            vhost=channel.virtual_host.name,
            object_name=name,
            facts=lambda: {"pid": name},
        )


def note_consumer_created(channel: Channel, consumer: Consumer, arguments: Table) -> None:
    """Tell that a client has started a consumer."""
    events = channel.broker.events
    if events.is_followed:
        details = {
            "queue": consumer.queue.name,
            "channel": channel_name(channel),
            "prefetch_count": consumer.prefetch,
            "ack_required": not consumer.no_ack,
            "exclusive": consumer.exclusive,
        }
        vhost = channel.virtual_host.name
        events.note(
            "consumer.created",
            channel.client.actor,
            vhost=vhost,
            object_name=consumer.tag,
            details=details,
            facts=lambda: {
                **details,
                "consumer_tag": consumer.tag,
                "vhost": vhost,
                "arguments": arguments,
            },
        )


def note_consumer_deleted(channel: Channel, consumer: Consumer) -> None:
    """Tell that a consumer has ended."""
    events = channel.broker.events
    if events.is_followed:
        details = {"queue": consumer.queue.name, "channel": channel_name(channel)}
        vhost = channel.virtual_host.name
        events.note(
            "consumer.deleted",
            channel.client.actor,
            vhost=vhost,
            object_name=consumer.tag,
            details=details,
            facts=lambda: {**details, "consumer_tag": consumer.tag, "vhost": vhost},
        )
