"""The row of a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json
from amqp_server.broker.consuming.single_active_consumer import SingleActiveConsumer
from amqp_server.definitions_file.json_arguments import plain_from_table

if TYPE_CHECKING:
    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.consuming.consumer import Consumer

CONSUMER_COLUMNS: Final = ("active", "activity_status", "prefetch_count", "unacked")
"""Names of the values in the row of a consumer."""


def consumer_attributes(consumer: Consumer, channel: Channel) -> Attributes:
    """Return what never changes of a consumer."""
    queue = consumer.queue
    return {
        **text_json("consumer_tag", consumer.tag),
        **text_json("queue", queue.name),
        **text_json("vhost", channel.virtual_host.name),
        "connection": channel.client.name,
        "channel": channel.number,
        **text_json("user", channel.client.user),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "priority": consumer.priority,
        "arguments": plain_from_table(consumer.arguments or {}),
        "consumer_timeout": consumer.timeout_ms,
    }


def consumer_values(consumer: Consumer) -> list[Any]:
    """Return the values of a consumer, in the order of `CONSUMER_COLUMNS`."""
    rotation = consumer.source.consumers
    if isinstance(rotation, SingleActiveConsumer):
        is_active = rotation.active is consumer
        status = "single_active" if is_active else "waiting"
    else:
        is_active, status = True, "up"
    return [is_active, status, consumer.prefetch, consumer.unacked]
