"""The row of a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.views.values import text_json

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.census.row import Facts

CHANNEL_COLUMNS: Final = (
    "confirm",
    "transactional",
    "consumer_count",
    "prefetch_count",
    "global_prefetch_count",
    "messages_unacknowledged",
)
"""Names of the values in the row of a channel."""


def channel_facts(channel: Channel) -> Facts:
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
    return [
        channel.publishing.confirms is not None,
        channel.transaction is not None,
        len(channel.consumers),
        channel.prefetch,
        channel.prefetch_global,
        channel.unacked.count,
    ]
