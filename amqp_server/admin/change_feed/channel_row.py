"""The row of a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json

if TYPE_CHECKING:
    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.broker.channel import Channel

CHANNEL_COLUMNS: Final = (
    "state",
    "confirm",
    "transactional",
    "consumer_count",
    "prefetch_count",
    "global_prefetch_count",
    "messages_unacknowledged",
    "messages_unconfirmed",
    "messages_uncommitted",
    "acks_uncommitted",
    "publish",
    "confirm_count",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "redeliver",
    "ack",
    "get_empty",
)
"""Names of the values in the row of a channel."""


def channel_attributes(channel: Channel) -> Attributes:
    """Return what never changes of a channel."""
    client = channel.client
    return {
        "connection": client.name,
        "number": channel.number,
        **text_json("user", client.user),
        **text_json("vhost", channel.virtual_host.name),
    }


def channel_values(channel: Channel) -> list[Any]:
    """Return the values of a channel, in the order of `CHANNEL_COLUMNS`."""
    confirms = channel.publishing.confirms
    transaction = channel.transaction
    publishes, deliveries = channel.counters.publishes, channel.counters.deliveries
    return [
        "running" if channel.client.is_writable else "flow",
        confirms is not None,
        transaction is not None,
        len(channel.consumers),
        channel.prefetch,
        channel.prefetch_global,
        channel.unacked.count,
        0 if confirms is None else confirms.last_tag - confirms.resolved_tag,
        0 if transaction is None else transaction.message_count,
        0 if transaction is None else transaction.answer_count,
        publishes.publish,
        publishes.confirm,
        publishes.return_unroutable,
        publishes.drop_unroutable,
        deliveries.deliver,
        deliveries.deliver_no_ack,
        deliveries.get,
        deliveries.get_no_ack,
        deliveries.redelivered,
        deliveries.ack,
        deliveries.get_empty,
    ]
