"""Events of channels and consumers, which the audit log does not have: there are too many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.events.events import Events
    from amqp_server.broker.queue_part import Namespace
    from amqp_server.protocol.tables import Table


class ObservedChannel(Protocol):
    """A channel, as its events see it."""

    @property
    def number(self) -> int:
        """Number of the channel in its connection."""

    @property
    def client(self) -> Client:
        """Connection of the channel."""

    @property
    def virtual_host(self) -> Namespace:
        """Virtual host of the channel."""

    @property
    def events(self) -> Events:
        """Events of the broker."""


def channel_name(channel: ObservedChannel) -> str:
    """Return the name of a channel, as RabbitMQ shows it."""
    return f"{channel.client.name} ({channel.number})"


def report_channel_created(channel: ObservedChannel) -> None:
    """Tell that a client has opened a channel."""
    events = channel.events
    if events.is_followed:
        name = channel_name(channel)
        client = channel.client
        details = {"number": channel.number}
        events.report(
            "channel.created",
            client.actor,
            vhost=channel.virtual_host.name,
            object_name=name,
            details=details,
            attributes=lambda: {
                **details,
                "pid": name,
                "name": name,
                "connection": client.name,
                "user": client.user,
                "vhost": channel.virtual_host.name,
            },
        )


def report_channel_closed(channel: ObservedChannel) -> None:
    """Tell that a channel is gone, with its consumers."""
    events = channel.events
    if events.is_followed:
        name = channel_name(channel)
        events.report(
            "channel.closed",
            channel.client.actor,
            vhost=channel.virtual_host.name,
            object_name=name,
            attributes=lambda: {"pid": name},
        )


def report_consumer_created(channel: ObservedChannel, consumer: Consumer, arguments: Table) -> None:
    """Tell that a client has started a consumer."""
    events = channel.events
    if events.is_followed:
        details = {
            "queue": consumer.queue.name,
            "channel": channel_name(channel),
            "prefetch_count": consumer.prefetch,
            "ack_required": not consumer.no_ack,
            "exclusive": consumer.exclusive,
        }
        vhost = channel.virtual_host.name
        events.report(
            "consumer.created",
            channel.client.actor,
            vhost=vhost,
            object_name=consumer.tag,
            details=details,
            attributes=lambda: {
                **details,
                "consumer_tag": consumer.tag,
                "vhost": vhost,
                "arguments": arguments,
            },
        )


def report_consumer_deleted(channel: ObservedChannel, consumer: Consumer) -> None:
    """Tell that a consumer has ended."""
    events = channel.events
    if events.is_followed:
        details = {"queue": consumer.queue.name, "channel": channel_name(channel)}
        vhost = channel.virtual_host.name
        events.report(
            "consumer.deleted",
            channel.client.actor,
            vhost=vhost,
            object_name=consumer.tag,
            details=details,
            attributes=lambda: {**details, "consumer_tag": consumer.tag, "vhost": vhost},
        )
