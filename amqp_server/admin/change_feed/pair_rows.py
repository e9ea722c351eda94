"""The rows of pairs: a channel and an exchange, a channel and a queue, an exchange and a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json

if TYPE_CHECKING:
    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.broker.counters.channel_counters import ChannelCounters
    from amqp_server.broker.counters.delivery_pair import DeliveryPair
    from amqp_server.broker.counters.incoming_pair import IncomingPair
    from amqp_server.broker.counters.owners import CountedExchange, CountedQueue
    from amqp_server.broker.counters.publish_pair import PublishPair
    from amqp_server.broker.observed_queue import ObservedQueue

PUBLISHES_COLUMNS: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
"""Names of the values of what a channel has published to an exchange."""
DELIVERIES_COLUMNS: Final = (
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "redeliver",
    "ack",
    "get_empty",
)
"""Names of the values of what a queue has delivered to a channel."""
INCOMING_COLUMNS: Final = ("publish",)
"""Names of the values of what a queue has got from an exchange."""


def publishes_attributes(channel: ChannelCounters, exchange: CountedExchange) -> Attributes:
    """Return which channel has published to which exchange."""
    return {**_channel_attributes(channel), **text_json("exchange", exchange.name)}


def publishes_values(pair: PublishPair) -> list[Any]:
    """Return the counters, in the order of `PUBLISHES_COLUMNS`."""
    return [pair.publish, pair.confirm, pair.return_unroutable, pair.drop_unroutable]


def deliveries_attributes(channel: ChannelCounters, queue: CountedQueue) -> Attributes:
    """Return which queue has delivered to which channel."""
    return {**_channel_attributes(channel), **text_json("queue", queue.name)}


def deliveries_values(pair: DeliveryPair) -> list[Any]:
    """Return the counters, in the order of `DELIVERIES_COLUMNS`."""
    return [
        pair.deliver,
        pair.deliver_no_ack,
        pair.get,
        pair.get_no_ack,
        pair.redelivered,
        pair.ack,
        pair.get_empty,
    ]


def incoming_attributes(queue: ObservedQueue, exchange: CountedExchange) -> Attributes:
    """Return which queue has got messages from which exchange."""
    return {
        **text_json("vhost", queue.virtual_host.name),
        **text_json("exchange", exchange.name),
        **text_json("queue", queue.name),
    }


def incoming_values(pair: IncomingPair) -> list[Any]:
    """Return the counters, in the order of `INCOMING_COLUMNS`."""
    return [pair.count]


def _channel_attributes(channel: ChannelCounters) -> Attributes:
    return {
        "connection": channel.connection,
        "number": channel.number,
        **text_json("vhost", channel.virtual_host.name),
    }
